-- KEYS[1] the lock, KEYS[2] the hash of counters and record
-- ARGV[1] secret (40 hex digits), ARGV[2] ttl in milliseconds, ARGV[3] field of the counter or '' for no fencing,
-- ARGV[4] owner label, ARGV[5] the record under which this master votes, or '' for any
-- reply: {1, fence, seconds, microseconds} granted; {0, milliseconds the key has left, -1 if it never expires, seconds,
-- microseconds} refused; the master's clock is what TIME says. Error NOTADMITTED: another record, nothing done.
-- Any key at the place is a refusal, of whatever type: it is never touched.
if ARGV[5] ~= '' and redis.call('HGET', KEYS[2], 'record') ~= ARGV[5] then
  return redis.error_reply('NOTADMITTED the record of this master has changed')
end
local now = redis.call('TIME')
local left = redis.call('PTTL', KEYS[1])
if left ~= -2 then
  return {0, left, tonumber(now[1]), tonumber(now[2])}
end
local fence = 0
if ARGV[3] ~= '' then
  fence = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
end
redis.call('SET', KEYS[1], ARGV[1] .. string.format('%016.0f', fence) .. ARGV[4], 'NX', 'PX', ARGV[2])
return {1, fence, tonumber(now[1]), tonumber(now[2])}
