-- KEYS[1] the lock, KEYS[2] the hash with the record
-- ARGV[1] the record or '' for any
-- reply: null if nothing stands here; '5000 value' for a string that lives another 5000 milliseconds, -1 for ever, the
-- value cut to 256 bytes; status OTHER for any other type. Error NOTADMITTED: another record
if ARGV[1] ~= '' and redis.call('HGET', KEYS[2], 'record') ~= ARGV[1] then
  return redis.error_reply('NOTADMITTED the record of this master has changed')
end
local left = redis.call('PTTL', KEYS[1])
if left == -2 then
  return false
end
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' then
  return redis.status_reply('OTHER')
end
return string.format('%.0f', left) .. ' ' .. string.sub(value, 1, 256)
