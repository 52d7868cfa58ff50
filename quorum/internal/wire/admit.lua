-- KEYS[1] the state hash
-- ARGV[1] the record that must stand there, '' for none
-- ARGV[2] '1' if nothing else may stand there
-- ARGV[3] the record that takes its place
-- ARGV[4] settings, ARGV[6] durable: '-' leaves the field, '' deletes it
-- ARGV[5] admissions to merge into the field known, '-' for none
-- ARGV[7] a number that no counter may be under, or ''
-- ARGV[8] 'field number field number ...': as ARGV[7] for single counters, or ''
-- reply: 1 done; 0 something else stands there, nothing done
-- This is the only script that changes a record.
if (redis.call('HGET', KEYS[1], 'record') or '') ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' and redis.call('HLEN', KEYS[1]) > 0 then
  return 0
end
local known = mergeKnown(KEYS[1], ARGV[5])
if type(known) == 'table' then
  return known
end
local have = {}
if ARGV[7] ~= '' or ARGV[8] ~= '' then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    have[all[i]] = tonumber(all[i + 1])
  end
end
-- Raised counters are written a hundred at a time: a command for each would take milliseconds.
local raised = {}
local function write()
  if #raised > 0 then
    redis.call('HSET', KEYS[1], unpack(raised))
    raised = {}
  end
end
local function raise(field, number)
  if not have[field] or have[field] < number then
    have[field] = number
    raised[#raised + 1] = field
    raised[#raised + 1] = string.format('%.0f', number)
    if #raised == 200 then
      write()
    end
  end
end
if ARGV[7] ~= '' then
  local floor = tonumber(ARGV[7])
  for i = 0, 4095 do
    raise(tostring(i), floor)
  end
end
for field, number in string.gmatch(ARGV[8], '(%d+) (%d+)') do
  raise(field, tonumber(number))
end
write()
for field, value in pairs({settings = ARGV[4], durable = ARGV[6]}) do
  if value == '' then
    redis.call('HDEL', KEYS[1], field)
  elseif value ~= '-' then
    redis.call('HSET', KEYS[1], field, value)
  end
end
redis.call('HSET', KEYS[1], 'record', ARGV[3])
return 1
