-- KEYS[1] the lock, KEYS[2] the hash with the record
-- ARGV[1] secret (40 hex digits), ARGV[2] ttl in milliseconds, ARGV[3] the record or '' for any
-- reply: 'seconds microseconds tail' if our value stands here and lives at least that long now: what TIME says, and what
-- stands behind the secret (16 digits of fence, owner label); 0 not our value, nothing done. Error NOTADMITTED: another
-- record, nothing done.
if ARGV[3] ~= '' and redis.call('HGET', KEYS[2], 'record') ~= ARGV[3] then
  return redis.error_reply('NOTADMITTED the record of this master has changed')
end
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or string.sub(value, 1, 40) ~= ARGV[1] then
  return 0
end
-- Raised, never lowered: a late or repeated one is harmless.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local now = redis.call('TIME')
return now[1] .. ' ' .. now[2] .. ' ' .. string.sub(value, 41, 120)
