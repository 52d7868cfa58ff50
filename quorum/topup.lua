-- KEYS[1] the lock, KEYS[2] the hash of counters and record
-- ARGV[1] secret (40 hex digits), ARGV[2] what is left of the ttl in milliseconds, ARGV[3] field of the counter or ''
-- for no fencing, ARGV[4] the fence, ARGV[5] owner label, ARGV[6] the record or '' for any
-- reply: 1 set; 2 our value stood here already and lives at least that long now; 0 another key stands here, nothing done.
-- Error NOTADMITTED: another record, nothing done.
if ARGV[6] ~= '' and redis.call('HGET', KEYS[2], 'record') ~= ARGV[6] then
  return redis.error_reply('NOTADMITTED the record of this master has changed')
end
local value = redis.pcall('GET', KEYS[1])
if value then
  if type(value) ~= 'string' or string.sub(value, 1, 40) ~= ARGV[1] then
    return 0
  end
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 2
end
local fence = tonumber(ARGV[4])
if ARGV[3] ~= '' then
  local have = redis.call('HGET', KEYS[2], ARGV[3])
  if not have or tonumber(have) < fence then
    redis.call('HSET', KEYS[2], ARGV[3], string.format('%.0f', fence))
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. string.format('%016.0f', fence) .. ARGV[5], 'NX', 'PX', ARGV[2])
return 1
