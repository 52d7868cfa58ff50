-- KEYS[1] the lock
-- ARGV[1] secret (40 hex digits)
-- reply: 1 deleted; 0 not this token, nothing done
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, 40) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
return 0
