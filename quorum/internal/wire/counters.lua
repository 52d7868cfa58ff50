-- KEYS[1] the state hash
-- ARGV[1] admissions to merge into its field known, or ''
-- ARGV[2] the record that it must have if its counters are to be told, or ''
-- reply: {known, counters}
--   known     the field as it stands now, or the error that kept it from being written
--   counters  'field number field number ...' of all; null if no record is given; the error
--             NOTADMITTED if there is another record
local known = mergeKnown(KEYS[1], ARGV[1])
if ARGV[2] == '' then
  return {known, false}
end
if redis.pcall('HGET', KEYS[1], 'record') ~= ARGV[2] then
  return {known, {err = 'NOTADMITTED the record of this master has changed'}}
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
return {known, table.concat(pieces, ' ')}
