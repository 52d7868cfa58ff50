-- The operations without a column, and the tools of the columns for locks with several holders.
-- Making a function costs as much as a command, and more with each local variable of the enclosing
-- function that it uses. So functions find each other in three tables, and make makes those parts
-- that a packet needs.
--
-- Only join, endAt, raise, share and functions that remove a holder change a lock with several
-- holders. A command may fail because the user lacks a right or the master is full. The order of
-- writes makes that harmless, and no function has to undo its writes: every key has an expiry, no
-- key expires before an end that was confirmed, and the release that is pending for a failed acquire
-- removes all of its members.
local function makeTools(out, news)
  local pcall, format, type, sub, max = redis.pcall, string.format, type, string.sub, math.max
  local KEYS, ARGV = KEYS, ARGV
  local ms = out[2] * 1000 + (out[3] - out[3] % 1000) / 1000
  local limit = math.min((ms + 86400000) * 2048, 9007199254740991) -- of counters
  local counters, raised = {}, {} -- by field: a number or an error; texts to be written
  local digits = '%.0f'
  if format('%d', 9007199254740991) == '9007199254740991' then -- faster, if longs have 64 bits
    digits = '%d'
  end
  local expires -- whether PEXPIREAT is known to be allowed
  local ends = {} -- by the text of the ttl
  local t, h, op = {}, {}, {} -- tools, those for locks with several holders, operations
  function t.whole(number) return format(digits, number) end

  function t.failed(reply) return type(reply) == 'table' and reply.err end

  function t.wrongType(reply) return t.failed(reply) and sub(reply.err, 1, 9) == 'WRONGTYPE' end

  -- released and changed note messages that are published after the operations: the release of a
  -- key, with the secret of its holder if there is one, or another change of it.
  function t.released(key, secret)
    if news then
      news.freed[#news.freed + 1] = key
      news.by[#news.freed] = secret
    end
  end

  function t.changed(key)
    if news then
      news.changes[#news.changes + 1] = key
    end
  end

  -- ahead returns the error if no counter may be raised to number, otherwise false.
  function t.ahead(number)
    return number > limit and {err = 'ERR a fencing counter is more than a day ahead of the clock'}
  end

  -- know notes a counter as read from the state: a number, false, or an error.
  function t.know(field, had)
    local number = had == false and 0 or not t.failed(had) and tonumber(had) or -1
    if field == '' or counters[field] then
      return
    elseif number >= 0 and number < limit and number % 1 == 0 then
      counters[field] = number
    else
      counters[field] = t.failed(had) and had or t.ahead(number + 1)
        or {err = 'ERR a fencing counter is no number under 2^53 - 1'}
    end
  end

  -- count makes a counter at least number. text is the number if that is at hand.
  function t.count(field, number, text)
    if field ~= '' and counters[field] < number then
      counters[field], raised[field] = number, text or t.whole(number)
    end
  end

  -- carryOut carries out the operations from ARGV[at] on, before which there are k others.
  -- refusal, unless it is nil, is the result of all that vote; tooLate of those that are too old.
  function t.carryOut(refusal, at, k, age, tooLate)
    local place, last = k + 3, #ARGV
    k = k + 2
    while at < last do
      local name, arguments, keys = ARGV[at], tonumber(ARGV[at + 1]), 1
      if name == 'acquire_keys' then
        keys = arguments - 4
      elseif name == 'raise_keys' then
        keys = arguments - 2
      end
      place, at = place + 1, at + 2
      local result = refusal
      if age and not result and (name == 'top_up' and age > 1000 * ARGV[at + 6]
        or sub(name, 1, 8) == 'acquire_' and age > 990 * ARGV[at + 1]) then
        result = tooLate
      end
      if not result or name == 'release' or name == 'tell' or name == 'leave' or name == 'keep'
        or name == 'fade' or name == 'free' then -- these do not vote
        result = op[name](KEYS[k], ARGV[at], at, k, keys)
      end
      out[place] = result
      at, k = at + arguments, k + keys
    end
    if next(raised) then
      local numbers = {}
      for field, text in pairs(raised) do
        numbers[#numbers + 1] = field
        numbers[#numbers + 1] = text
      end
      pcall('HSET', KEYS[1], unpack(numbers)) -- as before the operations, see packet.lua
    end
  end

  -- make makes the part of a function that is not there yet, and returns the function.
  local function make(made, name)
    if name == 'acquire_shared' or name == 'acquire_slot' or name == 'join' or name == 'intended' then
      -- join makes secret a holder of a key that is free or held in the same mode. n is the limit
      -- of slots, and first and second are tried first; a top-up names its slot as first, with n =
      -- 0, and brings a fence.
      --
      -- A shared lock counts only for its first holder; later ones read the counter. A top-up that
      -- is the first counts as well: later readers must have a greater number than the last
      -- exclusive holder.
      function h.join(mode, key, secret, ttl, field, owner, waits, n, first, second, fence)
        local had = counters[field]
        if type(had) == 'table' then
          return had
        end
        local left, last, largest = pcall('PTTL', key), 0, 0
        if type(left) ~= 'number' then
          return left
        elseif left ~= -2 then
          last, largest = h.latest(key, mode, secret, waits)
          if not last then
            return largest
          end
        end
        local shut = not fence and t.intended(key, mode)
        if shut then
          return shut
        end

        local slot, number = first, fence and tonumber(fence) or had and had + 1 or 0
        local count = number -- the least value of the counter
        if mode == 'limit' then
          slot = left == -2 and first or h.vacant(key, n, first, second, largest)
          if not slot then
            local soonest = pcall('ZRANGEBYSCORE', key, h.scoreOf(ms, 0), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
            return soonest.err and soonest or -2 - (soonest[2] and h.endOf(soonest[2]) - ms or 0)
          end
          largest = max(largest, n, slot + 1)
        elseif last < ms then
          count = max(number, (had or 0) + 1)
        elseif not fence then
          number, count = had or 0, had
        end
        local text, till, place, score = t.whole(number), ends[ttl] or t.whole(ms + ttl), '999', nil
        local entry = sub('0000000000000000', #text + 1) .. text
        if mode == 'limit' then
          place = sub('000', #slot + 1) .. slot
          entry, score = 'L' .. place .. entry, '-1' .. place
        else
          entry, score = 'S000' .. entry, h.entryScore(secret, 999)
        end
        ends[ttl] = till
        -- The expiry comes first. For a key that does not exist yet it only tests the right, once
        -- in a packet: rights do not change while a script runs.
        local done = 1
        if left ~= -2 then
          done = pcall('PEXPIREAT', key, last > ms + ttl and t.whole(last) or till)
        elseif not expires then
          done = pcall('PEXPIREAT', key, till)
          expires = type(done) == 'number'
        end
        if type(done) == 'number' then
          done = pcall('ZADD', key, largest == 0 and '0' or t.whole(largest), 'lockproxy-' .. mode,
            till .. place, '=' .. secret, score, secret .. entry .. owner)
        end
        -- A mark that is new says that the key was not there, or went meanwhile: see endAt.
        if type(done) == 'number' and (left == -2 or done > 2) then
          done = pcall('PEXPIREAT', key, till)
        end
        if type(done) ~= 'number' then
          return done
        end
        t.count(field, count, count == number and text)
        t.changed(key)
        if waits ~= '' then
          pcall('DEL', 'lockproxy:intent:' .. key)
        end
        return entry
      end

      -- intended returns the refusal if a client of another mode waits for the key.
      function t.intended(key, mode)
        local intent = 'lockproxy:intent:' .. key
        local waits = pcall('GET', intent)
        if type(waits) == 'string' and waits ~= mode then
          local left = pcall('PTTL', intent)
          if type(left) == 'number' and left >= 0 then
            return -2 - left
          end
        end
      end

      function op.acquire_shared(key, secret, at)
        return h.join('shared', key, secret, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3],
          ARGV[at + 4], 0, '0')
      end

      function op.acquire_slot(key, secret, at)
        return h.join('limit', key, secret, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3],
          ARGV[at + 4], tonumber(ARGV[at + 5]), ARGV[at + 6], ARGV[at + 7])
      end

    elseif name == 'latest' or name == 'purge' or name == 'remove' or name == 'vacant' or name == 'taken'
      or name == 'refuse' or name == 'modeOf' then
      -- latest returns the end of the last holder of a lock of mode, or nil and the result for
      -- another key.
      function h.latest(key, mode, secret, waits)
        local kind = pcall('TYPE', key)
        local mark = kind.ok == 'zset' and pcall('ZSCORE', key, 'lockproxy-' .. mode) or kind.err and kind
        if not mark then
          return nil, t.refuse(key, mode, waits)
        elseif t.failed(mark) then
          return nil, mark
        end
        h.purge(key)
        local score = pcall('ZSCORE', key, '=' .. secret)
        if t.failed(score) or score and h.endOf(score) >= ms then
          return nil, t.failed(score) and score or t.refuse(key, mode, '') -- it was set again before this came
        end
        local removed = score and h.remove(key, secret, score)
        if t.failed(removed) then
          return nil, removed
        end
        local last = pcall('ZREVRANGE', key, '0', '0', 'WITHSCORES')
        if last.err then
          return nil, last
        end
        return (h.endOf(last[2])), tonumber(mark)
      end

      -- purge removes holders that have ended, some at a time.
      function h.purge(key)
        local ended = pcall('ZRANGEBYSCORE', key, '1000', '(' .. h.scoreOf(ms, 0), 'WITHSCORES', 'LIMIT', '0', '16')
        for i = 1, #ended, 2 do
          h.remove(key, sub(ended[i], 2), ended[i + 1])
        end
      end

      -- remove takes a holder out, also if it has no entry. It may return an error.
      function h.remove(key, secret, score)
        local _, place = h.endOf(score)
        local entry = h.entryOf(key, secret, place)
        return t.failed(entry) and entry or pcall('ZREM', key, '=' .. secret, secret .. (entry or ''))
      end

      -- vacant returns a free slot: first, second, or the lowest under n; false without one.
      -- largest is the largest limit asked for so far.
      function h.vacant(key, n, first, second, largest)
        for try = 1, n > 0 and 2 or 1 do
          local slot = try == 1 and first or second
          local score = h.entryScore('', slot + 0)
          if not h.taken(key, pcall('ZRANGEBYSCORE', key, score, score), slot + 0) then
            return slot
          end
        end
        local live = pcall('ZCOUNT', key, h.scoreOf(ms, 0), '+inf')
        if n == 0 or t.failed(live) or live >= n and largest <= n then
          return false
        end
        local all = pcall('ZRANGEBYSCORE', key, h.entryScore('', n - 1), h.entryScore('', 0))
        local entries = {}
        for i = 1, #all do
          local slot = tonumber(sub(all[i], 42, 44)) or 0
          entries[slot] = entries[slot] or {}
          entries[slot][#entries[slot] + 1] = all[i]
        end
        for slot = 0, all.err and -1 or n - 1 do
          if not entries[slot] then
            return t.whole(slot)
          end
        end
        for slot = 0, n - 1 do
          if entries[slot] and not h.taken(key, entries[slot], slot) then
            return t.whole(slot)
          end
        end
        return false
      end

      -- taken reports whether the holder of one of these entries of a place is alive.
      function h.taken(key, entries, place)
        for i = 1, #entries do
          local score = pcall('ZSCORE', key, '=' .. sub(entries[i], 1, 40))
          local till, at = h.endOf(t.failed(score) and 0 or score)
          if t.failed(score) or till >= ms and at == place then
            return true
          end
        end
        return entries.err
      end

      -- refuse answers an acquire of mode that found another key. A client that waits leaves an
      -- intent if others could join the holders. An intent that ends later stays, unless it is of
      -- their mode: that keeps no client out.
      function t.refuse(key, mode, waits)
        local left = pcall('PTTL', key)
        if type(left) ~= 'number' or left == -2 then
          return type(left) == 'table' and left
        end
        local held = waits ~= '' and t.modeOf(key)
        if held and held ~= mode then
          local intent = 'lockproxy:intent:' .. key
          local stays = pcall('PTTL', intent)
          if type(stays) == 'number' and (stays <= tonumber(waits) or pcall('GET', intent) == held) then
            pcall('SET', intent, mode, 'PX', waits)
          end
        end
        return -2 - left
      end

      -- modeOf returns 'shared' or 'limit' for a lock with several holders, otherwise nil. Like
      -- find, it asks for the type first: an error costs as much as ten commands.
      function t.modeOf(key)
        return pcall('TYPE', key).ok == 'zset' and (
          type(pcall('ZSCORE', key, 'lockproxy-shared')) == 'string' and 'shared'
          or type(pcall('ZSCORE', key, 'lockproxy-limit')) == 'string' and 'limit') or nil
      end

    elseif name == 'scoreOf' or name == 'endOf' or name == 'entryScore' then
      -- scoreOf returns the score of a secret. Its place is the slot, or 999 for a reader.
      function h.scoreOf(till, place) return t.whole(till * 1000 + place) end

      -- endOf returns the end and the place of a score.
      function h.endOf(score)
        local number = tonumber(score) or 0
        local place = number % 1000
        return (number - place) / 1000, place
      end

      -- entryScore returns the score of an entry. That of a reader comes from digits 5 to 10 of
      -- the secret, which KEEP does not change.
      function h.entryScore(secret, place)
        return t.whole(place < 999 and -1000 - place or -1 - (tonumber(sub(secret, 5, 10), 16) or 0))
      end

    elseif name == 'find' or name == 'entryOf' or name == 'besideOf' then
      -- entryOf returns the entry of a secret, false without one, or the error.
      function h.entryOf(key, secret, place)
        local score = h.entryScore(secret, place)
        local found = pcall('ZRANGEBYSCORE', key, score, score)
        for i = 1, #found do
          if sub(found[i], 1, 40) == secret then
            return sub(found[i], 41)
          end
        end
        return found.err and found
      end

      -- find returns a holder: its entry, its place, and till, its end. Otherwise it returns nil
      -- and the result of the operation, and removes a holder that has ended.
      function h.find(key, secret)
        local score = pcall('ZSCORE', key, '=' .. secret)
        if type(score) ~= 'string' then
          return nil, score and not t.wrongType(score) and score or 0
        end
        local till, place = h.endOf(score)
        local entry = h.entryOf(key, secret, place)
        if type(entry) ~= 'string' then
          return nil, entry or 0
        elseif till < ms then
          pcall('ZREM', key, '=' .. secret, secret .. entry)
          return nil, 0
        end
        return {entry = entry, place = place, till = till}
      end

      -- besideOf returns the end of the last holder but secret, a number under ms without one, or
      -- the error.
      function h.besideOf(key, secret)
        local last = pcall('ZREVRANGE', key, '0', '1', 'WITHSCORES')
        return last.err and last or (h.endOf(last[last[1] == '=' .. secret and 4 or 2]))
      end

      -- find returns true if secret has the key alone, otherwise what h.find does.
      function t.find(key, secret)
        local kind = pcall('TYPE', key)
        if kind.ok == 'zset' then
          return h.find(key, secret)
        end
        local value = kind.ok == 'string' and pcall('GETRANGE', key, '0', '39') or kind.err and kind
        if value == secret then
          return true
        end
        return nil, t.failed(value) and value or 0
      end

    elseif name == 'leave' or name == 'tell' or name == 'release' or name == 'letGo' then
      -- leave lets a holder go. It returns 1 or the error, and whether that was the last one.
      function h.leave(key, secret, held)
        local beside = h.besideOf(key, secret)
        if t.failed(beside) then
          return beside
        elseif beside < ms then
          local done = pcall('DEL', key)
          return t.failed(done) and done or 1, true
        end
        local done = pcall('ZREM', key, '=' .. secret, secret .. held.entry)
        if t.failed(done) then
          return done
        elseif held.till > beside then
          pcall('PEXPIREAT', key, t.whole(beside))
        end
        return 1, false
      end

      -- release lets go what secret holds. With aloud it is published.
      function t.release(key, secret, aloud)
        local held, result = t.find(key, secret)
        return held and t.letGo(key, secret, held, aloud) or result
      end

      function t.letGo(key, secret, held, aloud)
        local done, last, slot
        if held == true then
          done, last = pcall('DEL', key), true
        else
          done, last = h.leave(key, secret, held)
          slot = held.place < 999
        end
        if aloud and done == 1 then
          if last or slot then
            t.released(key, secret)
          end
          if slot or not last then
            t.changed(key)
          end
        end
        return done
      end

      function op.release(key, secret) return t.release(key, secret, false) end

      function op.tell(key, secret) return t.release(key, secret, true) end

      -- The only holder is known by the first members: secret, mark and entry.
      function op.leave(key, secret)
        local first = pcall('ZREVRANGE', key, '0', '3')
        if first[1] ~= '=' .. secret or #first ~= 3 or sub(first[2], 1, 10) ~= 'lockproxy-' then
          return t.release(key, secret, true)
        end
        local done, slot = pcall('DEL', key), first[2] == 'lockproxy-limit'
        if done == 1 then
          t.released(key, secret)
          if slot then
            t.changed(key)
          end
        end
        return done
      end

    elseif name == 'acquire_keys' or name == 'raise_keys' then
      function op.acquire_keys(_, secret, at, k, n)
        local ttl, owner, waits, fields = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], at + 3
        local fence, set, result = 0, 0, nil
        for i = 1, n do
          local had = counters[ARGV[fields + i]]
          if type(had) == 'table' then
            return had
          end
          fence = max(fence, (had or -1) + 1)
        end
        local text = t.whole(fence)
        local value = secret .. sub('0000000000000000', #text + 1) .. text .. owner
        while set < n and not result do
          local done = pcall('SET', KEYS[k + set], value, 'NX', 'PX', ttl)
          if done and not done.err then
            set = set + 1
          else
            result = done or 0
          end
        end
        if result then
          if set > 0 then
            pcall('DEL', unpack(KEYS, k, k + set - 1))
          end
          local longest -- that a key in the way lives, -1 for ever
          for i = k, k + n - 1 do
            local left = pcall('PTTL', KEYS[i])
            if type(left) == 'number' and left ~= -2 then
              t.refuse(KEYS[i], 'exclusive', waits)
              longest = (left == -1 or longest == -1) and -1 or max(longest or 0, left)
            end
          end
          return longest and -2 - longest or result ~= 0 and result
        end
        for i = 1, n do
          t.count(ARGV[fields + i], fence, text)
          t.changed(KEYS[k + i - 1])
          if waits ~= '' then
            pcall('DEL', 'lockproxy:intent:' .. KEYS[k + i - 1])
          end
        end
        return fence
      end

      function op.raise_keys(_, secret, at, k, n)
        local fence, fields = tonumber(ARGV[at + 1]), at + 1
        local ahead = t.ahead(fence)
        for i = 1, ahead and 0 or n do
          local value = pcall('GETRANGE', KEYS[k + i - 1], '0', '39')
          if type(counters[ARGV[fields + i]]) == 'table' then
            return counters[ARGV[fields + i]]
          elseif value ~= secret then
            return t.failed(value) and not t.wrongType(value) and value or 0
          end
        end
        for i = 1, ahead and 0 or n do
          local done = pcall('SETRANGE', KEYS[k + i - 1], '40', ARGV[at + 1])
          if t.failed(done) then
            return done
          end
          t.count(ARGV[fields + i], fence)
        end
        return ahead or 1
      end

    elseif name == 'refresh' then
      local function clock()
        local at = redis.pcall('TIME')
        return at[1] * 1000 + (at[2] - at[2] % 1000) / 1000
      end

      -- endOf returns the end of a key by this clock, -1 without one, or the error. The clock may
      -- move on while a script runs, and the end must be exact.
      local function endOf(key)
        local before, left
        repeat
          before, left = clock(), pcall('PTTL', key)
        until before == clock()
        return type(left) == 'number' and left >= 0 and before + left or left
      end

      -- refresh compares and sets: an end that it names is not that of a later refresh, because the
      -- low 3 bits of an end count its changes.
      function op.refresh(key, secret, at)
        local held, result = t.find(key, secret)
        if held ~= true then
          return held and 0 or result
        end
        local has, rest = endOf(key), pcall('GETRANGE', key, '40', '639')
        if t.failed(has) or t.failed(rest) then
          return t.failed(has) and has or rest
        end
        local till = ms + ARGV[at + 1]
        till = till + (has + 1 - till) % 8
        if (has < 0 or till < has) and t.whole(has) ~= ARGV[at + 2] then
          return '>' .. t.whole(has) .. ' ' .. rest
        end
        local done = pcall('PEXPIREAT', key, t.whole(till))
        return t.failed(done) and done or rest
      end

    else
      -- endAt gives secret another end, till, and the key that of the last holder. With an entry
      -- it adds the holder. It returns 0 if the key is gone: PEXPIREAT deletes it if the script
      -- stood still until after till.
      function h.endAt(key, secret, till, place, entry)
        local beside = h.besideOf(key, secret)
        if t.failed(beside) then
          return beside
        end
        local last = t.whole(max(till, beside))
        local done = pcall('PEXPIREAT', key, last)
        if t.failed(done) then
          return done
        elseif entry then
          done = pcall('ZADD', key, h.scoreOf(till, place), '=' .. secret, h.entryScore(secret, place),
            secret .. entry)
          return t.failed(done) and done or pcall('PEXPIREAT', key, last) -- or what ZADD made anew stays
        end
        return pcall('ZADD', key, 'XX', 'CH', h.scoreOf(till, place), '=' .. secret)
      end

      -- lengthen makes what secret holds live at least ttl from now. It returns the fence and the
      -- owner, or the entry.
      function t.lengthen(key, secret, ttl, held)
        local done
        if held == true then
          done = pcall('PTTL', key)
          if type(done) == 'number' and done < tonumber(ttl) then
            done = pcall('PEXPIRE', key, ttl)
          end
          return t.failed(done) and done or pcall('GETRANGE', key, '40', '639')
        elseif ms + ttl > held.till then
          done = h.endAt(key, secret, ms + ttl, held.place)
        end
        return done ~= 0 and not t.failed(done) and held.entry or done
      end

      function op.raise(key, secret, at)
        local fence, field = ARGV[at + 1], ARGV[at + 2]
        local ahead = t.ahead(tonumber(fence))
        if ahead then
          return ahead
        end
        local held, done = t.find(key, secret)
        if not held then
          return done
        elseif type(counters[field]) == 'table' then
          return counters[field]
        elseif held == true then
          done = pcall('SETRANGE', key, '40', fence) -- keeps the expiry
        else
          -- The first ZADD keeps the end as it is. It tests whether an entry can be added.
          done = pcall('ZADD', key, h.scoreOf(held.till, held.place), '=' .. secret)
          done = t.failed(done) and done or pcall('ZREM', key, secret .. held.entry)
          if not t.failed(done) then
            local entry = sub(held.entry, 1, 4) .. fence .. sub(held.entry, 21)
            done = pcall('ZADD', key, h.entryScore(secret, held.place), secret .. entry)
          end
        end
        if t.failed(done) then
          return done
        end
        t.count(field, tonumber(fence))
        return 1
      end

      function op.extend(key, secret, at)
        local held, result = t.find(key, secret)
        return held and t.lengthen(key, secret, ARGV[at + 1], held) or result
      end

      -- share makes the exclusive holder the first of a shared lock. Later readers have a greater
      -- fence.
      function op.share(key, secret, at, held)
        local result
        if type(held) ~= 'boolean' then
          held, result = t.find(key, secret)
        end
        local ttl, field = ARGV[at + 1], ARGV[at + 2]
        if not held then
          return result
        elseif held ~= true then
          return held.place < 999 and {err = 'WRONGMODE a slot cannot be shared'}
            or t.lengthen(key, secret, ttl, held)
        end
        local left, rest = pcall('PTTL', key), pcall('GETRANGE', key, '40', '639')
        if type(counters[field]) == 'table' then
          return counters[field]
        elseif t.failed(left) or t.failed(rest) then
          return t.failed(left) and left or rest
        end
        if not string.find(rest, '^' .. string.rep('%d', 16)) then
          rest = '0000000000000000' -- set by another library
        end
        local number = (tonumber(sub(rest, 1, 16)) or 0) + 1
        if t.ahead(number) then
          return t.ahead(number)
        end
        local later = pcall('TIME') -- than left was read
        later = later[1] * 1000 + (later[2] - later[2] % 1000) / 1000
        local till, entry = max(later + left, ms + ttl), 'S000' .. rest
        -- After the string is deleted, no command may fail. So the key gets its expiry before, and
        -- a ZADD that fails because of the type alone tests the right to make the set.
        local done = pcall('PEXPIREAT', key, t.whole(till))
        done = t.failed(done) and done or pcall('ZADD', key, '0', '=' .. secret)
        done = t.wrongType(done) and pcall('DEL', key) or done
        if not t.failed(done) then
          pcall('ZADD', key, '0', 'lockproxy-shared', h.scoreOf(till, 999), '=' .. secret, h.entryScore(secret, 999),
            secret .. entry)
          done = pcall('PEXPIREAT', key, t.whole(till))
        end
        if t.failed(done) then
          return done
        end
        t.count(field, number)
        t.released(key, secret)
        return entry
      end

      function op.top_up(key, secret, at)
        local ttl, field, fence = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
        local owner, mode = ARGV[at + 4], ARGV[at + 5]
        local ahead = t.ahead(tonumber(fence))
        if ahead or type(counters[field]) == 'table' then
          return ahead or counters[field]
        end
        local held, result = t.find(key, secret)
        if not held and result ~= 0 then
          return result
        elseif type(held) == 'table' and held.place < 999 and held.place ~= tonumber(mode) then
          h.leave(key, secret, held)
        elseif held then
          if held == true and mode == 'shared' then -- this master missed that the lock is shared
            result = op.share(key, secret, at, true)
          else
            result = t.lengthen(key, secret, ttl, held)
          end
          return t.failed(result) and result or 2
        end
        if mode == 'exclusive' then
          result = pcall('SET', key, secret .. fence .. owner, 'NX', 'PX', ttl)
          if not result or result.err then
            return result and pcall('PTTL', key) == -2 and result or 0
          end
          t.count(field, tonumber(fence))
          t.changed(key)
          return 1
        end
        local slot = mode ~= 'shared' and mode
        result = h.join(slot and 'limit' or 'shared', key, secret, ttl, field, owner, '', 0,
          slot or '0', nil, fence)
        return type(result) == 'string' and 1 or t.failed(result) and result or 0
      end

      function op.check(key, secret)
        local held, result = t.find(key, secret)
        return held == true and 1 or held and 1 + held.place % 999 or result
      end

      function op.keep(key, secret, at)
        local held, done = t.find(key, secret)
        local closed = 'kept' .. sub(secret, 5)
        if not held then
          return done
        elseif held == true then
          local rest = pcall('GETRANGE', key, '40', '-1')
          done = t.failed(rest) and rest or pcall('SET', key, closed .. rest, 'PX', ARGV[at + 1])
        else
          done = h.endAt(key, closed, ms + ARGV[at + 1], held.place, held.entry)
          done = t.failed(done) and done or h.leave(key, secret, held)
        end
        if t.failed(done) then
          return done
        end
        t.released(key, secret)
        return held == true and 1 or 1 + held.place % 999
      end

      function op.fade(key, secret, at)
        local held, done = t.find(key, secret)
        local ttl = tonumber(ARGV[at + 1])
        if not held then
          return done
        elseif held == true then
          done = pcall('PTTL', key)
          if type(done) == 'number' and (done < 0 or done > ttl) then
            done = pcall('PEXPIRE', key, ARGV[at + 1])
          end
        elseif ms + ttl < held.till then
          done = h.endAt(key, secret, ms + ttl, held.place)
        end
        return t.failed(done) and done or 1
      end

      function op.inspect(key)
        local left = pcall('PTTL', key)
        if type(left) ~= 'number' or left == -2 then
          return type(left) == 'table' and left
        end
        local kind = pcall('TYPE', key)
        local value = kind.ok == 'string' and pcall('GETRANGE', key, '0', '639') or kind.err and kind
        if value then
          return type(value) == 'string' and t.whole(left) .. ' ' .. value or value
        end
        local mode = t.modeOf(key)
        if not mode then
          return {ok = 'OTHER'}
        end
        local found = {mode, left, pcall('ZCOUNT', key, h.scoreOf(ms, 0), '+inf')}
        local last = pcall('ZREVRANGE', key, '0', '127', 'WITHSCORES')
        for i = 1, #last, 2 do
          local till, place = h.endOf(last[i + 1])
          if till < ms then
            break
          end
          local secret = sub(last[i], 2)
          local entry = h.entryOf(key, secret, place)
          found[#found + 1] = secret
          found[#found + 1] = type(entry) == 'string' and entry or ''
          found[#found + 1] = till - ms
        end
        return found
      end

      function op.free(key)
        local kind = pcall('TYPE', key)
        local value = kind.ok == 'string' and pcall('GETRANGE', key, '0', '39') or kind.err and kind
        if t.failed(value) then
          return value
        elseif not value and not t.modeOf(key) then
          return 0
        end
        local done = pcall('DEL', key)
        if done == 1 then
          t.released(key, value or nil)
        end
        return done
      end
    end
    return rawget(made, name)
  end

  local lazy = {__index = make}
  setmetatable(t, lazy)
  setmetatable(h, lazy)
  setmetatable(op, lazy)
  return t
end
