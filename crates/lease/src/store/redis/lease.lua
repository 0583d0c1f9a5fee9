-- One lease is one hash, kept for ever: the term must survive. Times are microseconds of this server's clock.
-- KEYS[1] a lease, KEYS[2] its history, where one is named. ARGV[1] the operation, ARGV[2] not_after.
-- TIME is the start of the script: no other command runs in between.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local not_after = tonumber(ARGV[2])
local FIELDS = { 'name', 'holder', 'incarnation', 'term', 'beat', 'ttl', 'expires', 'since', 'priority', 'step_down', 'successor' }

local function int(number) return string.format('%.0f', number) end

local function read(key)
    local values = redis.call('HMGET', key, unpack(FIELDS))
    if not values[1] then return nil end
    local row = {}
    for i, field in ipairs(FIELDS) do row[field] = values[i] or '' end
    for _, field in ipairs({ 'term', 'beat', 'ttl', 'expires', 'since', 'priority' }) do
        row[field] = tonumber(row[field])
    end
    return row
end

local function write(key, row)
    local values = {}
    for _, field in ipairs(FIELDS) do
        local value = row[field]
        if type(value) == 'number' then value = int(value) end
        values[#values + 1] = field
        values[#values + 1] = value
    end
    redis.call('HSET', key, unpack(values))
end

local function record(row, reason, from, to, note)
    local history, id = KEYS[2], redis.call('HINCRBY', KEYS[1], 'changes', 1)
    local entry = { id, row.name, int(now), reason, int(row.term), from, to, note }
    redis.call('LPUSH', history, cjson.encode(entry))
    redis.call('LTRIM', history, 0, 999)
end

local function shown(row)
    if not row then return {} end
    return { row.name, row.holder, row.incarnation, int(row.term), int(row.beat), int(row.ttl), int(row.expires),
        int(row.since), int(row.priority), row.step_down, row.successor }
end

local operation = {}

-- KEYS: leases alone.
function operation.look()
    local rows = {}
    for i = 1, #KEYS do rows[i] = shown(read(KEYS[i])) end
    return rows
end

-- ARGV: name, holder, incarnation, priority, ttl, above, unchanged?, its incarnation, its term, its beat
function operation.acquire()
    local name, holder, incarnation = ARGV[3], ARGV[4], ARGV[5]
    local priority, ttl, above = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
    local row = read(KEYS[1])
    if now > not_after then return { 'too-late', {} } end
    local reason
    if not row then
        reason = 'created'
    elseif row.incarnation == '' and row.successor == holder then
        reason = 'reserved'
    elseif row.incarnation == '' and row.successor == '' then
        reason = 'released'
    elseif row.incarnation == incarnation then
        reason = 'reacquired'
    elseif row.expires < now then
        reason = 'expired'
    elseif ARGV[9] == '1' and row.incarnation == ARGV[10] and row.term == tonumber(ARGV[11])
        and row.beat == tonumber(ARGV[12]) then
        reason = 'unchanged'
    else
        return { 'refused', shown(row) }
    end
    if reason == 'reacquired' and row.term > above then
        -- The reply to an earlier request was lost: the same term again, from now.
        row.beat, row.ttl, row.expires, row.priority = row.beat + 1, ttl, now + ttl, priority
        write(KEYS[1], row)
        return { 'granted', shown(row) }
    end
    local last, from = row and row.term or 0, row and row.holder or ''
    row = { name = name, holder = holder, incarnation = incarnation, term = math.max(last, above) + 1, beat = 0,
        ttl = ttl, expires = now + ttl, since = now, priority = priority, step_down = '', successor = '' }
    write(KEYS[1], row)
    record(row, reason, from, holder, '')
    return { reason == 'created' and 'created' or 'granted', shown(row) }
end

-- KEYS: leases alone. ARGV: incarnation, beat, then term and ttl for each lease. Of what is kept, and not asked to step down, nothing
-- is told; of anything else its place among KEYS, and what became of it.
function operation.renew()
    local incarnation, beat, answers = ARGV[3], tonumber(ARGV[4]), {}
    local ttl, expires
    for i = 1, #KEYS do
        local term = ARGV[3 + 2 * i]
        local held = redis.call('HMGET', KEYS[i], 'incarnation', 'term', 'step_down', 'successor', 'beat')
        if now > not_after then
            answers[#answers + 1] = { int(i), 'too-late' }
        elseif held[1] == incarnation and held[2] == term then
            if ttl ~= ARGV[4 + 2 * i] then
                ttl = ARGV[4 + 2 * i]
                expires = int(now + tonumber(ttl))
            end
            local higher = math.max(beat, tonumber(held[5]) + 1)
            redis.call('HSET', KEYS[i], 'beat', int(higher), 'ttl', ttl, 'expires', expires)
            if held[3] ~= '' or held[4] ~= '' then answers[#answers + 1] = { int(i), 'kept', held[3], held[4] } end
        else
            answers[#answers + 1] = { int(i), 'gone', unpack(shown(read(KEYS[i]))) }
        end
    end
    return answers
end

-- ARGV: incarnation, term, successor, reserve, channel
function operation.release()
    local row = read(KEYS[1])
    if not row or now > not_after or row.incarnation ~= ARGV[3] or row.term ~= tonumber(ARGV[4]) then
        return 0
    end
    local from, reserve = row.holder, tonumber(ARGV[6])
    row.holder, row.incarnation, row.step_down, row.successor = '', '', '', ARGV[5]
    row.beat, row.ttl, row.since, row.expires = row.beat + 1, reserve, now, now + reserve
    write(KEYS[1], row)
    record(row, ARGV[5] == '' and 'departed' or 'stepped-down', from, '', '')
    redis.call('PUBLISH', ARGV[7], row.name)
    return 1
end

-- ARGV: term, successor, over ('' for any), channel
function operation.ask()
    local row = read(KEYS[1])
    if not row or now > not_after or row.incarnation == '' or row.term ~= tonumber(ARGV[3]) then return 0 end
    if ARGV[5] ~= '' and row.priority >= tonumber(ARGV[5]) then return 0 end
    row.step_down, row.successor = '1', ARGV[4]
    write(KEYS[1], row)
    redis.call('PUBLISH', ARGV[6], row.name)
    return 1
end

-- ARGV: note, channel
function operation.force()
    local row = read(KEYS[1])
    if not row then return 0 end
    local from = row.holder
    row.holder, row.incarnation, row.step_down, row.successor = '', '', '', ''
    row.term, row.beat, row.ttl, row.since, row.expires = row.term + 1, 0, 0, now, now
    write(KEYS[1], row)
    record(row, 'forced', from, '', ARGV[3])
    redis.call('PUBLISH', ARGV[4], row.name)
    return int(row.term)
end

-- ARGV: the oldest time to keep
function operation.prune()
    local pruned, oldest = 0, tonumber(ARGV[3])
    while true do
        local last = redis.call('LINDEX', KEYS[2], -1)
        if not last or tonumber(cjson.decode(last)[3]) >= oldest then return pruned end
        redis.call('RPOP', KEYS[2])
        pruned = pruned + 1
    end
end

return { int(now), operation[ARGV[1]]() }
