-- KEYS[1] the lock, KEYS[2] the hash with the record
-- ARGV[1] secret (40 hex digits), ARGV[2] the record or '' for any
-- reply: 1 our value stands here; 0 it does not. Error NOTADMITTED: another record
if ARGV[2] ~= '' and redis.call('HGET', KEYS[2], 'record') ~= ARGV[2] then
  return redis.error_reply('NOTADMITTED the record of this master has changed')
end
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, 40) == ARGV[1] then
  return 1
end
return 0
