-- KEYS[1] the lock
-- ARGV[1] secret (40 hex digits), ARGV[2] what begins the name of the channel to tell, or '' to tell nobody
-- reply: 1 deleted; 0 not this token, nothing done
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or string.sub(value, 1, 40) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then
  -- Nothing is published when nobody waits. A user who may not ask or publish still releases.
  local channel = ARGV[2] .. KEYS[1]
  local waits = redis.pcall('PUBSUB', 'NUMSUB', channel)
  if type(waits[2]) == 'number' and waits[2] > 0 then
    redis.pcall('PUBLISH', channel, string.sub(redis.sha1hex(ARGV[1]), 1, 16))
  end
end
return 1
