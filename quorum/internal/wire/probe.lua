-- KEYS[1] the state hash
-- reply: 'seconds microseconds fields', then one line each: record, settings, known, durable;
-- empty where there is none. The first two are what TIME says, fields is how many the hash has.
local now = redis.call('TIME')
local lines = {now[1] .. ' ' .. now[2] .. ' ' .. redis.call('HLEN', KEYS[1])}
for i, field in ipairs({'record', 'settings', 'known', 'durable'}) do
  lines[i + 1] = redis.call('HGET', KEYS[1], field) or ''
end
return table.concat(lines, '\n')
