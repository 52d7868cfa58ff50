-- KEYS[1] the lock
-- ARGV[1] secret (40 hex digits)
-- reply: 1 our value stands here; 0 it does not
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, 40) == ARGV[1] then
  return 1
end
return 0
