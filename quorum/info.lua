-- KEYS[1] the lock
-- reply: null if nothing stands here; '5000 value' for a string that lives another 5000 milliseconds, -1 for ever, the
-- value cut to 256 bytes; status OTHER for any other type
local left = redis.call('PTTL', KEYS[1])
if left == -2 then
  return false
end
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' then
  return redis.status_reply('OTHER')
end
return string.format('%.0f', left) .. ' ' .. string.sub(value, 1, 256)
