-- KEYS[1] the hash of counters and record
-- reply: 'seconds microseconds fields', then one line each: record, settings, born, durable; empty where there is none. The
-- first two are what TIME says, fields is how many the hash has.
local now = redis.call('TIME')
local said = {now[1] .. ' ' .. now[2] .. ' ' .. redis.call('HLEN', KEYS[1])}
for i, field in ipairs({'record', 'settings', 'born', 'durable'}) do
  said[i + 1] = redis.call('HGET', KEYS[1], field) or ''
end
return table.concat(said, '\n')
