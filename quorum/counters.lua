-- KEYS[1] the hash of counters and record
-- ARGV[1] the record that it must have
-- reply: 'field number field number ...' of all counters. Error NOTADMITTED: another record
if redis.call('HGET', KEYS[1], 'record') ~= ARGV[1] then
  return redis.error_reply('NOTADMITTED the record of this master has changed')
end
-- In pieces: some interpreters of Lua concatenate no more than a few hundred at once.
local all = redis.call('HGETALL', KEYS[1])
local pieces, piece = {}, {}
for i = 1, #all, 2 do
  if string.find(all[i], '^%d+$') then
    piece[#piece + 1] = all[i] .. ' ' .. all[i + 1]
  end
  if #piece == 100 then
    pieces[#pieces + 1] = table.concat(piece, ' ')
    piece = {}
  end
end
pieces[#pieces + 1] = table.concat(piece, ' ')
return table.concat(pieces, ' ')
