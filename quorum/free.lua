-- KEYS[1] the lock
-- ARGV[1] what begins the name of the channel to tell
-- reply: 1 a string stood here, whosever it was, and was deleted; 0 nothing or another type stands here, nothing done
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' then
  return 0
end
redis.call('DEL', KEYS[1])
local channel = ARGV[1] .. KEYS[1]
local waits = redis.pcall('PUBSUB', 'NUMSUB', channel)
if type(waits[2]) == 'number' and waits[2] > 0 then
  redis.pcall('PUBLISH', channel, string.sub(redis.sha1hex(string.sub(value, 1, 40)), 1, 16))
end
return 1
