-- A text of admissions is '<fingerprint> <nonce of master 0> <nonce of master 1> ...', 0 for none.
-- A nonce begins with the number of the admission and a dash; one without dashes has the number 0.
local function numberOf(nonce)
  if nonce == '0' then
    return -1
  end
  return tonumber(string.match(nonce, '^(%d+)%-') or 0)
end

local function wordsOf(text)
  local words = {}
  for word in string.gmatch(text, '%S+') do
    words[#words + 1] = word
  end
  return words
end

-- mergeKnown merges admissions into the field known of the hash and returns what stands there
-- then, or an error. Of each master the higher number stays; of equal ones the one that stands
-- there. A text with another fingerprint, or for another number of masters, is replaced.
local function mergeKnown(hash, admissions)
  local text = redis.pcall('HGET', hash, 'known') or ''
  if type(text) == 'table' or admissions == '' or admissions == '-' then
    return text
  end
  local words, new = wordsOf(text), wordsOf(admissions)
  if words[1] ~= new[1] or #words ~= #new then
    words = new
  end
  for i = 2, #new do
    if numberOf(words[i]) < numberOf(new[i]) then
      words[i] = new[i]
    end
  end
  local merged = table.concat(words, ' ')
  if merged ~= text then
    local set = redis.pcall('HSET', hash, 'known', merged)
    if type(set) == 'table' then
      return set
    end
  end
  return merged
end
