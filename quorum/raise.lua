-- KEYS[1] the lock, KEYS[2] the hash of counters and record
-- ARGV[1] secret (40 hex digits), ARGV[2] the fence, ARGV[3] field of the counter, ARGV[4] the record or
-- '' for any
-- reply: 1 our value stands here, it carries the fence and the counter is at least as high; 0 not our value, nothing done.
-- Error NOTADMITTED: another record, nothing done.
if ARGV[4] ~= '' and redis.call('HGET', KEYS[2], 'record') ~= ARGV[4] then
  return redis.error_reply('NOTADMITTED the record of this master has changed')
end
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or string.sub(value, 1, 40) ~= ARGV[1] then
  return 0
end
local fence = tonumber(ARGV[2])
local have = redis.call('HGET', KEYS[2], ARGV[3])
if not have or tonumber(have) < fence then
  redis.call('HSET', KEYS[2], ARGV[3], string.format('%.0f', fence))
end
-- SETRANGE keeps the expiry.
redis.call('SETRANGE', KEYS[1], 40, string.format('%016.0f', fence))
return 1
