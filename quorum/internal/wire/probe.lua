-- KEYS[1] the state hash
-- reply: 'seconds microseconds fields', then one line each: record, settings, known, durable,
-- writes; empty if there is none. The first two are TIME, fields is how many the hash has.
local now = redis.call('TIME')
local lines = {now[1] .. ' ' .. now[2] .. ' ' .. redis.call('HLEN', KEYS[1])}
for i, field in ipairs({'record', 'settings', 'known', 'durable', 'writes'}) do
  lines[i + 1] = redis.call('HGET', KEYS[1], field) or ''
end
return table.concat(lines, '\n')
