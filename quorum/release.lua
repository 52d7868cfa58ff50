-- KEYS[1] the lock, KEYS[2] the hash with the record
-- ARGV[1] secret (40 hex digits), ARGV[2] what begins the name of the channel to tell, or '' to tell nobody,
-- ARGV[3] the record or '' for any
-- reply: 1 deleted; 0 not this token, nothing done. Error NOTADMITTED: another record, so this is no vote; deleted all the
-- same if it was this token.
local admitted = ARGV[3] == '' or redis.call('HGET', KEYS[2], 'record') == ARGV[3]
local value = redis.pcall('GET', KEYS[1])
local deleted = 0
if type(value) == 'string' and string.sub(value, 1, 40) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  deleted = 1
  if ARGV[2] ~= '' then
    -- Nothing is published when nobody waits. A user who may not ask or publish still releases.
    local channel = ARGV[2] .. KEYS[1]
    local waits = redis.pcall('PUBSUB', 'NUMSUB', channel)
    if type(waits[2]) == 'number' and waits[2] > 0 then
      redis.pcall('PUBLISH', channel, string.sub(redis.sha1hex(ARGV[1]), 1, 16))
    end
  end
end
if not admitted then
  return redis.error_reply('NOTADMITTED the record of this master has changed')
end
return deleted
