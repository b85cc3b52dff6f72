/* The steps of a poller, and the mutants of them. */

/* ---- what may be done when ------------------------------------------------------------------------- */
#define DEADLINE_AHEAD(p) (IN_TIME(p) || (st[p] == ASKING && wleft[p] > 0))
#if defined(BAD_OWN_CLOCK)
#define TAKER_FREE  true                          /* a wall clock that is far ahead */
#elif defined(BAD_NO_EXPIRY)
#define TAKER_FREE  (owner == FREE)
#else
#define TAKER_FREE  (owner == FREE || EXPIRED)
#endif
#define MAY_TAKE(p) ((exists && TAKER_FREE) || (!exists && MAY_BEGIN(p)))
#ifdef BAD_SAME_TOKEN
#define NEXT_TOKEN (tok > 0 -> tok : 1)
#else
#define NEXT_TOKEN (tok + 1)
#endif
#if defined(BAD_TWO_WRITERS)
#define MAY_COMMIT(p) (BELIEVES(p) && (wk[p] == NONE || wk[p] == BEAT))
#elif defined(BAD_COMMIT_AFTER_DEADLINE)
#define MAY_COMMIT(p) (st[p] == HELD && wk[p] == NONE)
#else
#define MAY_COMMIT(p) (BELIEVES(p) && wk[p] == NONE)
#endif
#ifdef PIPELINE
#define NEXT_MAY_START(p) true
#else
#define NEXT_MAY_START(p) (handled[p] == known[p])
#endif
#ifdef BAD_BEATS_FOR_EVER
#define STILL_BEATS(p) true
#else
#define STILL_BEATS(p) !HUNG(p)                   /* at handler_timeout it stops */
#endif

/* Faults are free in a search for broken laws. For liveness they are counted, and what is no fault is quick. */
#ifdef LIVE
byte faults = FAULTS;
bit  hung[2];                                     /* its handler never returns; it starts nothing more */
#define HUNG(p)        hung[p]
#define MAY_FAIL       (faults > 0)
#define SPEND          faults--
#define MAY_ASK(p)     true
#define IN_FLIGHT      1                          /* no attempt times out while its copy is on its way */
#define MAY_RELEASE(p) (handled[p] > known[p] || mypaused[p] || failed[p] || handled[p] == ROWS)
#else
#define HUNG(p)        false
#define MAY_FAIL       true
#define SPEND          skip
#if WIPES > 0
#define MAY_ASK(p)     (!exists || seen[p])       /* two idle pollers differ: one may have seen the document */
#else
#define MAY_ASK(p)     (p == 0 || st[0] != IDLE)  /* see elder() */
#endif
#define IN_FLIGHT      COPIES
#define MAY_RELEASE(p) true
#endif

/* ---- steps of a poller ---------------------------------------------------------------------------- */

/* The one GET: free, not paused, rows pending: acquire (the very first tick: create). */
inline ask(p) { d_step {
    st[p] == IDLE && !HUNG(p) && MAY_ASK(p) && tok < MAXTOK && ckpt < ROWS && !paused && MAY_TAKE(p) ->
    st[p] = ASKING; tag[p] = 1; mytok[p] = NEXT_TOKEN; known[p] = ckpt; mypaused[p] = 0; mygen[p] = gen;
    freeze(p, ACQ, ckpt)
} }

#if WIPES > 0
/* The first look of a process at a document: its record is copied to the audit trail, or a first one is written. */
inline look(p) { d_step {
    exists && !seen[p] ->
    SAW(p)
} }
/* An idle process ends, and another begins. */
inline restart(p) { d_step { st[p] == IDLE && seen[p] -> seen[p] = 0 } }
/* The weekly rewrite: an idle poller writes once more what stands there, under its tag, while the lease is free. What
 * becomes of it interests nobody: nothing is kept of it but the write itself. */
#ifdef BAD_REWRITE_LIVE
#define MAY_REWRITE true
#else
#define MAY_REWRITE (owner == FREE || EXPIRED)
#endif
#ifdef BAD_REWRITE_ANY_TAG
byte oldtok, oldckpt;
inline rewrite_frozen() { d_step { exists && !rewriting && MAY_REWRITE -> rewriting = 1; oldtok = tok; oldckpt = ckpt } }
#define REWRITES oldtok, oldckpt
#else
inline rewrite_frozen() { d_step { exists && !rewriting && MAY_REWRITE -> rewriting = 1 } }
#define REWRITES tok, ckpt
#endif
#endif

/* 2xx. */
inline answered(p) { d_step {
    ans[p] ->
    acknowledge(p);
    if
    :: wk[p] == REL -> forget(p)
    :: else -> keep(p, later[p] == 0)
    fi
} }

/* An attempt was answered 412: read again, and see what became of the write. */
inline refused(p) { d_step {
    wk[p] != NONE && copies[p] > 0 && !tag[p] && !ans[p] ->
    resolve(p)
} }

/* An attempt timed out: the same bytes again, under the same If-Match. */
inline resend(p) { d_step {
    wk[p] != NONE && !ans[p] && DEADLINE_AHEAD(p) && copies[p] < IN_FLIGHT ->
    copies[p]++
} }

/* Heartbeat: its own thread, the same single writer. */
inline beat(p) { d_step {
    wk[p] == NONE && BELIEVES(p) && left[p] < LEASE && STILL_BEATS(p) ->
    freeze(p, BEAT, known[p])
} }

/* Commit, lease kept. */
inline commit(p) { d_step {
    MAY_COMMIT(p) && handled[p] > known[p] && handled[p] < ROWS ->
    freeze(p, COM, handled[p])
} }

/* The last commit releases too; so do a pause, a failed handler, a drain, a stop. */
inline release(p) { d_step {
    wk[p] == NONE && BELIEVES(p) && !running[p] && MAY_RELEASE(p) ->
    freeze(p, REL, handled[p])
} }

/* The deadline is reached: unknown, treated as not owned. */
inline give_up(p) { d_step {
    st[p] != IDLE && !DEADLINE_AHEAD(p) ->
    orphan(p);
    forget(p)
} }

/* The handler, a critical section. A result after the deadline is discarded. */
inline batch_starts(p) { d_step {
    BELIEVES(p) && !running[p] && !failed[p] && !mypaused[p] && handled[p] < ROWS && NEXT_MAY_START(p) ->
    running[p] = 1
} }
inline batch_succeeds(p) { d_step {
    running[p] && BELIEVES(p) && !HUNG(p) ->
    running[p] = 0; handled[p]++;
    if :: mygen[p] == gen -> okrows = okrows | (1 << (handled[p] - 1)) :: else fi
} }
inline batch_fails(p) { d_step {
    running[p] && BELIEVES(p) && !HUNG(p) && MAY_FAIL ->
    SPEND; running[p] = 0; failed[p] = 1
} }
#ifdef LIVE
inline batch_hangs(p) { d_step {            /* not in both: somebody must be alive */
    running[p] && BELIEVES(p) && !hung[0] && !hung[1] && MAY_FAIL ->
    SPEND; hung[p] = 1
} }
#endif

/* ---- mutants of those steps ------------------------------------------------------------------------ */
#ifdef BAD_TIMEOUT_IS_SUCCESS
/* An attempt timed out: surely it was applied. */
inline timeout_is_success(p) { d_step {
    wk[p] != NONE && !ans[p] && DEADLINE_AHEAD(p) ->
    acknowledge(p);
    if
    :: wk[p] == REL -> forget(p)
    :: else -> keep(p, 1)
    fi
} }
#endif
#ifdef BAD_TIMEOUT_IS_FAILURE
/* An attempt timed out and the document is still the old one: surely it was not applied. */
inline timeout_is_failure(p) { d_step {
    wk[p] != NONE && !ans[p] && tag[p] && DEADLINE_AHEAD(p) ->
    condemn(p);
    if
    :: wk[p] == ACQ -> forget(p)
    :: else -> settle(p); failed[p] = 1
    fi
} }
#endif
#ifdef BAD_COMMIT_UNHANDLED
/* A failed batch is committed like any other. */
inline commit_unhandled(p) { d_step {
    wk[p] == NONE && BELIEVES(p) && failed[p] && handled[p] < ROWS ->
    freeze(p, REL, handled[p] + 1)
} }
#endif
