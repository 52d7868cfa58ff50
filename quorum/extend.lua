-- KEYS[1] the lock
-- ARGV[1] secret (40 hex digits), ARGV[2] ttl in milliseconds
-- reply: what stands behind the secret (16 digits of fence, owner label) if our value stands here and lives at least that
-- long now; 0 not our value, nothing done
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or string.sub(value, 1, 40) ~= ARGV[1] then
  return 0
end
-- Raised, never lowered: a late or repeated one is harmless.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return string.sub(value, 41, 120)
