-- A packet of lock operations, carried out one after the other.
-- KEYS[1] the state hash: record and counters; KEYS[1+i] the lock of operation i
-- ARGV[1] the record under which this master votes, '' for any; ARGV[2] the prefix of channels;
-- then for each operation a letter and its arguments:
--   A secret ttl field owner        acquire: sets the lock if nothing stands at the key
--   R secret fence field            raise: the lock gets this fence, the counter is at least that
--   T secret ttl field fence owner  top up: as A with a fence, or as E if the lock stands there
--   E secret ttl                    extend: raises the lock's expiry, never lowers it
--   C secret                        check
--   D secret, P secret              release; P also tells those who wait for the key
--   F secret ms                     fade: the lock lives at most ms more
--   I                               inspect
--   X                               free: deletes any string, and tells as P does
-- ttl and ms are milliseconds, a fence has 16 digits, field names a counter, '' without fencing.
-- reply: {1 admitted or 0, seconds, microseconds, a result for each operation}. The results:
--   A  the fence, 0 without fencing. Refused: -2 - left of a key that stands there, whatever its
--      type, and is not touched: it lives left milliseconds more, for ever if left is -1
--   R, C, D, P, F, X  1 done, 0 something else stands there, or nothing
--   T  1 set; 2 it stood there and lives at least that long now; 0 something else stands there
--   E  what stands behind the secret, at most 80 bytes; 0 something else stands there, or nothing
--   I  null: nothing; 'left value', left -1 for ever, value cut to 256 bytes; OTHER: no string
-- An error is the result of one operation and leaves the others alone. NOTADMITTED: the record
-- differs, and the operation votes: all but D, P, F and X do.
--
-- All is one stretch without functions: to make one costs as much as an operation. Behind TIME
-- nothing may throw, or operations that were carried out would get no answer.
local pcall, format, type, sub = redis.pcall, string.format, type, string.sub
local KEYS, ARGV, state = KEYS, ARGV, KEYS[1]
local now = redis.call('TIME')
local admitted = ARGV[1] == '' or pcall('HGET', state, 'record') == ARGV[1]
local out = {admitted and 1 or 0, tonumber(now[1]), tonumber(now[2])}
local refusal = not admitted and {err = 'NOTADMITTED the record of this master has changed'}
local width = {A = 5, R = 4, T = 6, E = 3, C = 2, D = 2, P = 2, F = 3, I = 1, X = 1}

-- Counters are read once, before the operations, and written once, behind them.
local fields, counter, broken, at = {}, {}, nil, 3
if admitted then
  for i = 2, #KEYS do
    local op = ARGV[at]
    if op == 'A' or op == 'R' or op == 'T' then
      local field = ARGV[at + 3]
      if field ~= '' and not counter[field] then
        counter[field] = 0
        fields[#fields + 1] = field
      end
    end
    at = at + width[op]
  end
end
-- %d is faster, but right only where C has a long of 64 bits. To ask pays off with a few fences.
local digits, digits16 = '%.0f', '%016.0f'
if #fields > 4 and format('%d', 9007199254740991) == '9007199254740991' then
  digits, digits16 = '%d', '%016d'
end
if fields[1] then
  local have = pcall('HMGET', state, unpack(fields))
  for i = 1, #fields do
    local number = have[i] and tonumber(have[i]) or have[i] == false and 0 or -1
    if number >= 0 and number < 9007199254740991 and number % 1 == 0 then
      counter[fields[i]] = number
    else
      counter[fields[i]] = nil
      broken = have.err and have or {err = 'ERR a fencing counter is no number under 2^53 - 1'}
    end
  end
end

local raised, counted = {}, {}   -- new texts of counters; the results that are void without them
local channels, secrets = {}, {} -- of releases to tell
at = 3
for i = 2, #KEYS do
  local key, op, secret, result = KEYS[i], ARGV[at], ARGV[at + 1], nil
  if not admitted and op ~= 'D' and op ~= 'P' and op ~= 'F' and op ~= 'X' then
    result = refusal

  elseif op == 'A' then
    local field, fence, text = ARGV[at + 3], 0, '0000000000000000'
    local last = counter[field]
    if last then
      fence = last + 1
      text = format(digits16, fence)
    end
    if not last and field ~= '' then
      result = broken
    else
      local set = pcall('SET', key, secret .. text .. ARGV[at + 4], 'NX', 'PX', ARGV[at + 2])
      if set and not set.err then
        result = fence
        if last then
          counter[field], raised[field] = fence, text
          counted[#counted + 1] = i + 2
        end
      else
        result = pcall('PTTL', key)
        if result == -2 then
          result = set
        elseif type(result) == 'number' then
          result = -2 - result
        end
      end
    end

  elseif op == 'T' then
    local ttl, field, text = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local last = counter[field]
    if not last and field ~= '' then
      result = broken
    else
      local set = pcall('SET', key, secret .. text .. ARGV[at + 5], 'NX', 'PX', ttl)
      if set and not set.err then
        result = 1
        if last then
          counted[#counted + 1] = i + 2
          if last < tonumber(text) then
            counter[field], raised[field] = tonumber(text), text
          end
        end
      else
        result = pcall('GETRANGE', key, '0', '39')
        if result == secret then
          result = pcall('PTTL', key)
          if type(result) == 'number' and result < tonumber(ttl) then
            result = pcall('PEXPIRE', key, ttl)
          end
          if type(result) == 'number' then
            result = 2
          end
        elseif result == '' and set then
          result = set
        elseif type(result) == 'string' or sub(result.err, 1, 9) == 'WRONGTYPE' then
          result = 0
        end
      end
    end

  elseif op == 'I' then
    local left = pcall('PTTL', key)
    result = left
    if left == -2 then
      result = false
    elseif type(left) == 'number' then
      result = pcall('GETRANGE', key, '0', '255')
      if type(result) == 'string' then
        result = format('%.0f ', left) .. result
      elseif sub(result.err, 1, 9) == 'WRONGTYPE' then
        result = {ok = 'OTHER'}
      end
    end

  else
    local value = pcall('GETRANGE', key, '0', '39')
    if value ~= secret and type(value) == 'table' then
      result = sub(value.err, 1, 9) == 'WRONGTYPE' and 0 or value
    elseif value ~= secret and op ~= 'X' then
      result = 0
    elseif op == 'P' or op == 'D' or op == 'X' then
      result = pcall('DEL', key)
      if result == 1 and op ~= 'D' then
        channels[#channels + 1] = ARGV[2] .. key
        secrets[#channels] = value
      end
    elseif op == 'C' then
      result = 1
    elseif op == 'R' then
      local field, text = ARGV[at + 3], ARGV[at + 2]
      local last = counter[field]
      if not last and field ~= '' then
        result = broken
      else
        result = pcall('SETRANGE', key, '40', text) -- keeps the expiry
        if type(result) == 'number' then
          result = 1
          if last then
            counted[#counted + 1] = i + 2
            if last < tonumber(text) then
              counter[field], raised[field] = tonumber(text), text
            end
          end
        end
      end
    else -- E, F
      local left, bound = pcall('PTTL', key), tonumber(ARGV[at + 2])
      result = left
      if type(left) == 'number' then
        result = 1
        if op == 'E' and left < bound or op == 'F' and (left < 0 or left > bound) then
          result = pcall('PEXPIRE', key, ARGV[at + 2])
        end
        if op == 'E' and result == 1 then
          result = pcall('GETRANGE', key, '40', '119')
        end
      end
    end
  end
  out[i + 2] = result
  at = at + width[op]
end

if counted[1] then
  local pairs = {}
  for i = 1, #fields do
    local field = fields[i]
    local text = raised[field]
    if text then
      if counter[field] < 1e15 then -- no leading zeros, which HINCRBY would not take
        text = format(digits, counter[field])
      end
      pairs[#pairs + 1] = field
      pairs[#pairs + 1] = text
    end
  end
  local written = pairs[1] and pcall('HSET', state, unpack(pairs))
  if type(written) == 'table' then
    for i = 1, #counted do
      out[counted[i]] = written
    end
  end
end

-- Nothing is published when nobody waits. A user who may not ask or publish still releases.
if channels[1] then
  local waits = pcall('PUBSUB', 'NUMSUB', unpack(channels))
  for i = 1, #waits / 2 do
    if waits[2 * i] > 0 then
      pcall('PUBLISH', channels[i], sub(redis.sha1hex(secrets[i]), 1, 16))
    end
  end
end
return out
