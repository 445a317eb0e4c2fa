"""Minimal Kafka-protocol broker, batch-header-level handling, one WAL, group commit.
usage: kbroker.py PORT NPART SYNC(0|1|t) CACHE_MB LOOP(uv|asyncio) WALPATH CRC(0|1)
 SYNC 0 = inline writev in loop; t = writev in thread; 1 = writev+fdatasync in thread
"""

import asyncio, os, sys, struct, time, gc
from array import array
from bisect import bisect_right
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from crc32c import crc32c

PORT = int(sys.argv[1])
NPART = int(sys.argv[2])
SYNC = sys.argv[3]
CACHE = int(sys.argv[4]) << 20
LOOP = sys.argv[5]
WAL = sys.argv[6]
CRC = sys.argv[7] == "1"
CH = 4 << 20
S = struct.Struct
I32 = S(">i")
HDR = S(">hhih")
Q64 = S(">q")
BH = S(">qiibIhiqqqhii")
FPART = S(">iqi")
i32 = I32.unpack_from
hdr = HDR.unpack_from
packq = Q64.pack_into
bh = BH.unpack_from
packwal = S(">II").pack_into


class Part:
    __slots__ = ("id", "next", "hw", "bases", "poss", "lens", "waiters")

    def __init__(s, i):
        s.id = i
        s.next = 0
        s.hw = 0
        s.bases = array("q")
        s.poss = array("q")
        s.lens = array("i")
        s.waiters = None


topics = {}  # bytes name -> list[Part]


def get_topic(name):
    t = topics.get(name)
    if t is None:
        t = topics[name] = [Part((len(topics) << 16) | i) for i in range(NPART)]
    return t


fd = os.open(WAL, os.O_CREAT | os.O_RDWR | os.O_TRUNC)


class Log:
    pos = 0
    iov = []
    ent = []
    acks = []
    scheduled = False
    busy = False
    cache = {}
    cq = deque()
    cbytes = 0
    ngroups = 0
    nbatches = 0
    nreq = 0
    nfetch = 0


L = Log
ex = ThreadPoolExecutor(1)


def writev_all(iov):
    n = len(iov)
    if n <= 1024:
        os.writev(fd, iov)  # prototype: short writes ignored (regular file)
    else:
        for i in range(0, n, 1024):
            os.writev(fd, iov[i : i + 1024])


def job(iov):
    writev_all(iov)
    if SYNC == "1":
        os.fdatasync(fd)


def flush():
    L.scheduled = False
    if L.busy:
        return
    iov = L.iov
    ent = L.ent
    acks = L.acks
    if not acks:
        return
    L.iov = []
    L.ent = []
    L.acks = []
    L.ngroups += 1
    if SYNC == "0":
        if iov:
            writev_all(iov)
        committed(ent, acks)
    else:
        if not iov:
            return committed(ent, acks)
        L.busy = True
        f = ex.submit(job, iov)
        f.add_done_callback(lambda f: loop.call_soon_threadsafe(done, f, ent, acks))


def done(f, ent, acks):
    f.result()
    L.busy = False
    committed(ent, acks)
    if L.acks:
        flush()


def committed(ent, acks):
    cache = L.cache
    cq = L.cq
    cb = L.cbytes
    wake = None
    for p, base, nxt, pos, mv, ln in ent:
        p.bases.append(base)
        p.poss.append(pos)
        p.lens.append(ln)
        p.hw = nxt
        if CACHE:
            cache[pos] = mv
            cq.append(pos)
            cb += ln
        if p.waiters:
            if wake is None:
                wake = {}
            for w in p.waiters:
                wake[w] = 1
    if cb > CACHE:
        while cb > CACHE:
            cb -= len(cache.pop(cq.popleft()))
    L.cbytes = cb
    L.nbatches += len(ent)
    out = {}
    for c, r in acks:
        c.pend -= 1
        l = out.get(c)
        if l is None:
            out[c] = [r]
        else:
            l.append(r)
    for c, l in out.items():
        c.tr.write(l[0] if len(l) == 1 else b"".join(l))
    if wake:
        for w in wake:
            w.wake()


pstructs = {}


class Waiter:
    __slots__ = ("c", "corr", "ver", "req", "timer", "parts")

    def wake(s):
        s.finish()

    def finish(s):
        if s.parts is None:
            return
        for p in s.parts:
            p.waiters.discard(s)
        s.parts = None
        s.timer.cancel()
        s.c.fetch_reply(s.corr, s.req)


class Conn(asyncio.BufferedProtocol):
    __slots__ = ("tr", "buf", "mv", "r", "w", "pinned", "pend", "size")

    def connection_made(s, tr):
        s.tr = tr
        tr.set_write_buffer_limits(high=64 << 20)
        s.size = CH
        s.buf = bytearray(CH)
        s.mv = memoryview(s.buf)
        s.r = s.w = 0
        s.pinned = False
        s.pend = 0

    def connection_lost(s, e):
        pass

    def pause_writing(s):
        pass

    def resume_writing(s):
        pass

    def get_buffer(s, hint):
        return s.mv[s.w :]

    def buffer_updated(s, n):
        w = s.w + n
        r = s.r
        buf = s.buf
        ln = 0
        while w - r >= 4:
            (ln,) = i32(buf, r)
            end = r + 4 + ln
            if end > w:
                break
            s.handle(buf, r + 4, end)
            r = end
            ln = 0
        if r == w and not s.pinned:
            r = w = 0
        elif r + ln + 4 > s.size or s.size - w < 65536:
            size = max(CH, ln + 65536)
            nb = bytearray(size)
            nb[: w - r] = s.mv[r:w]
            s.buf = nb
            s.mv = memoryview(nb)
            s.size = size
            w -= r
            r = 0
            s.pinned = False
        s.r = r
        s.w = w

    def handle(s, buf, o, end):
        key, ver, corr, cl = hdr(buf, o)
        o += 10
        if cl > 0:
            o += cl
        if key == 0:
            s.produce(buf, o, ver, corr)
        elif key == 1:
            s.fetch(buf, o, ver, corr)
        else:
            s.reply(corr, s.other(key, ver, buf, o))

    def reply(s, corr, body):
        m = struct.pack(">ii", len(body) + 4, corr) + body
        if s.pend:
            s.pend += 1
            L.acks.append((s, m))
        else:
            s.tr.write(m)

    def produce(s, buf, o, ver, corr):
        L.nreq += 1
        tl = (buf[o] << 8) | buf[o + 1]
        o += 2 if tl == 0xFFFF else 2 + tl
        acks, to, nt, nl = struct.unpack_from(">hiih", buf, o)
        o += 12
        mv = s.mv
        iov = L.iov
        ent = L.ent
        pos = L.pos
        resp = None
        for ti in range(nt):
            if ti:
                nl = (buf[o] << 8) | buf[o + 1]
                o += 2
            name = bytes(mv[o : o + nl])
            o += nl
            (np_,) = i32(buf, o)
            o += 4
            tp = topics.get(name) or get_topic(name)
            for _ in range(np_):
                idx, ln = struct.unpack_from(">ii", buf, o)
                b = o + 8
                base0, blen, ep, magic, crc, attrs, lod, ts, mts, pid, pep, seq, cnt = bh(buf, b)
                err = 0
                base = -1
                if magic != 2 or blen + 12 != ln or lod != cnt - 1 or (CRC and crc32c(mv[b + 21 : b + ln]) != crc):
                    err = 2
                else:
                    p = tp[idx]
                    base = p.next
                    p.next = nxt = base + cnt
                    packq(buf, b, base)
                    packwal(buf, o, p.id, ln)
                    m = mv[o : b + ln]
                    iov.append(m)
                    ent.append((p, base, nxt, pos, m, ln + 8))
                    pos += ln + 8
                o = b + ln
                if nt == 1 and np_ == 1:
                    st = pstructs.get((ver, nl))
                    if st is None:
                        st = pstructs[(ver, nl)] = S(">iiih%dsiihqq%si" % (nl, "q" if ver >= 5 else ""))
                    if ver >= 5:
                        resp = st.pack(st.size - 4, corr, 1, nl, name, 1, idx, err, base, -1, 0, 0)
                    else:
                        resp = st.pack(st.size - 4, corr, 1, nl, name, 1, idx, err, base, -1, 0)
                else:
                    if resp is None:
                        resp = [struct.pack(">i", nt)]
                    if _ == 0:
                        resp.append(struct.pack(">h%dsi" % nl, nl, name, np_))
                    resp.append(
                        struct.pack(">ihqqq", idx, err, base, -1, 0)
                        if ver >= 5
                        else struct.pack(">ihqq", idx, err, base, -1)
                    )
        L.pos = pos
        s.pinned = True
        if resp.__class__ is list:
            resp.append(b"\0\0\0\0")
            bdy = b"".join(resp)
            resp = struct.pack(">ii", len(bdy) + 4, corr) + bdy
        s.pend += 1
        L.acks.append((s, resp if acks else b""))
        if not L.scheduled and not L.busy:
            L.scheduled = True
            loop.call_soon(flush)

    def fetch(s, buf, o, ver, corr):
        L.nfetch += 1
        rep, maxwait, minb, maxb, iso, nt = struct.unpack_from(">iiiibi", buf, o)
        o += 21
        req = []
        avail = False
        for _ in range(nt):
            nl = (buf[o] << 8) | buf[o + 1]
            o += 2
            name = bytes(s.mv[o : o + nl])
            o += nl
            (n,) = i32(buf, o)
            o += 4
            tp = topics.get(name) or get_topic(name)
            l = [(idx, tp[idx], off, mb) for idx, off, mb in FPART.iter_unpack(s.mv[o : o + 16 * n])]
            o += 16 * n
            for x in l:
                if x[2] < x[1].hw:
                    avail = True
                    break
            req.append((name, l))
        if avail or maxwait <= 0 or minb <= 0:
            return s.fetch_reply(corr, (maxb, req))
        w = Waiter()
        w.c = s
        w.corr = corr
        w.req = (maxb, req)
        w.parts = [x[1] for _, l in req for x in l]
        for p in w.parts:
            if p.waiters is None:
                p.waiters = set()
            p.waiters.add(w)
        w.timer = loop.call_later(maxwait / 1000, w.finish)

    def fetch_reply(s, corr, rq):
        maxb, req = rq
        out = [
            b"",
        ]
        total = 0
        acc = bytearray(struct.pack(">ii", 0, len(req)))
        cache = L.cache
        for name, l in req:
            acc += struct.pack(">h%dsi" % len(name), len(name), name, len(l))
            for idx, p, off, mb in l:
                hw = p.hw
                if off >= hw or maxb <= 0:
                    acc += struct.pack(">ihqqii", idx, 0 if off <= hw else 1, hw, hw, 0, 0)
                    continue
                i = bisect_right(p.bases, off) - 1
                n = len(p.bases)
                poss = p.poss
                lens = p.lens
                got = 0
                recs = []
                lim = mb if mb < maxb else maxb
                while i < n:
                    ln = lens[i] - 8
                    if got and got + ln > lim:
                        break
                    ps = poss[i]
                    m = cache.get(ps)
                    recs.append(m[8:] if m is not None else os.pread(fd, ln, ps + 8))
                    got += ln
                    i += 1
                maxb -= got
                acc += struct.pack(">ihqqii", idx, 0, hw, hw, 0, got)
                out.append(bytes(acc))
                total += len(acc)
                acc.clear()
                out += recs
                total += got
        if acc:
            out.append(bytes(acc))
            total += len(acc)
        out[0] = struct.pack(">ii", total + 4, corr)
        if s.pend:
            s.pend += 1
            L.acks.append((s, b"".join(out)))
        else:
            s.tr.writelines(out)

    def other(s, key, ver, buf, o):
        if key == 18:
            api = [(0, 3, 7), (1, 4, 4), (2, 1, 1), (3, 1, 4), (18, 0, 3)]
            if ver <= 2 or ver > 3:
                b = struct.pack(">hi", 0 if ver <= 2 else 35, len(api)) + b"".join(struct.pack(">hhh", *a) for a in api)
                return b + (b"\0\0\0\0" if 1 <= ver <= 2 else b"")
            return (
                struct.pack(">hB", 0, len(api) + 1) + b"".join(struct.pack(">hhhB", *a, 0) for a in api) + b"\0\0\0\0\0"
            )
        if key == 3:
            (n,) = i32(buf, o)
            o += 4
            names = []
            if n < 0:
                names = list(topics)
            for _ in range(max(n, 0)):
                l = (buf[o] << 8) | buf[o + 1]
                names.append(bytes(buf[o + 2 : o + 2 + l]))
                o += 2 + l
            h = b"127.0.0.1"
            b = b"\0\0\0\0" if ver >= 3 else b""
            b += struct.pack(">iih%dsih" % len(h), 1, 1, len(h), h, PORT, -1)
            if ver >= 2:
                b += struct.pack(">h", -1)
            b += struct.pack(">ii", 1, len(names))
            for nm in names:
                t = get_topic(nm)
                b += struct.pack(">hh%dsbi" % len(nm), 0, len(nm), nm, 0, len(t))
                b += b"".join(struct.pack(">hiiiiii", 0, i, 1, 1, 1, 1, 1) for i in range(len(t)))
            return b
        if key == 2:
            rep, nt = struct.unpack_from(">ii", buf, o)
            o += 8
            b = struct.pack(">i", nt)
            for _ in range(nt):
                l = (buf[o] << 8) | buf[o + 1]
                nm = bytes(buf[o + 2 : o + 2 + l])
                o += 2 + l
                (n,) = i32(buf, o)
                o += 4
                b += struct.pack(">h%dsi" % l, l, nm, n)
                for _ in range(n):
                    idx, ts = struct.unpack_from(">iq", buf, o)
                    o += 12
                    p = get_topic(nm)[idx]
                    b += struct.pack(">ihqq", idx, 0, -1, 0 if ts == -2 else p.hw)
            return b
        raise ValueError(key)


async def main():
    global loop
    loop = asyncio.get_running_loop()
    srv = await loop.create_server(Conn, "127.0.0.1", PORT)
    import signal

    def stats():
        print("STATS", L.nreq, L.nbatches, L.ngroups, L.nfetch, L.pos, flush=True)

    loop.add_signal_handler(signal.SIGUSR1, stats)
    print("ready", os.getpid(), flush=True)
    await srv.serve_forever()


gc.freeze()
gc.set_threshold(100000, 50, 50)
if LOOP == "uv":
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
