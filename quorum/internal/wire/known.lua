-- A text of admissions is '<fingerprint> <nonce of master 0> <nonce of master 1> ...', 0 for none.
-- A nonce is '<number>-<writes>-<id>'; one without dashes has the number 0.
local function numbersOf(nonce)
  if nonce == '0' then
    return -1, 0, ''
  end
  local number, writes, id = string.match(nonce, '^(%d+)%-(%d+)%-(.*)$')
  return tonumber(number or 0), tonumber(writes or 0), id or nonce
end

-- later reports whether nonce a replaces nonce b: it is of a later admission, or of the same one
-- with more writes.
local function later(a, b)
  local number, writes, id = numbersOf(a)
  local number2, writes2, id2 = numbersOf(b)
  return number > number2 or id == id2 and number == number2 and writes > writes2
end

local function wordsOf(text)
  local words = {}
  for word in string.gmatch(text, '%S+') do
    words[#words + 1] = word
  end
  return words
end

-- mergeKnown merges admissions into the field known of the hash and returns the field as it is
-- then, or an error. Of each master the later nonce stays. A text with another fingerprint, or for
-- another number of masters, is replaced.
local function mergeKnown(hash, admissions)
  local text = redis.pcall('HGET', hash, 'known') or ''
  if type(text) == 'table' or admissions == '' then
    return text
  end
  local words, new = wordsOf(text), wordsOf(admissions)
  if words[1] ~= new[1] or #words ~= #new then
    words = new
  end
  for i = 2, #new do
    if later(new[i], words[i]) then
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
