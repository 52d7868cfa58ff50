-- KEYS[1] the state hash
-- ARGV[1] admissions to merge into its field known
-- ARGV[2] the record that it must carry: a master that has lost its memory does not learn
-- ARGV[3] '1' if the largest counter is wanted
-- reply: {known, top}
--   known  the field as it is now, or the error that kept it from being written
--   top    the largest counter; null if not wanted. A counter more than a day ahead of the clock is
--          an error of this master alone and does not count
-- or the error NOTADMITTED if there is another record
if redis.call('HGET', KEYS[1], 'record') ~= ARGV[2] then
  return {err = 'NOTADMITTED the record of this master has changed'}
end
local now = redis.call('TIME')
local known = mergeKnown(KEYS[1], ARGV[1])
if ARGV[3] ~= '1' then
  return {known, false}
end
local top, limit = 0, (now[1] + 86400) * 2048000
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local number = string.find(all[i], '^%d+$') and tonumber(all[i + 1])
  if number and number > top and number <= limit then
    top = number
  end
end
return {known, top}
