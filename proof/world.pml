/* The steps of everything around the pollers: the network, crashes, the operator, time. */

/* A copy reaches the store, late or not, and its If-Match holds. */
#ifdef BAD_NO_IF_MATCH
#define ACCEPTED(p) (wk[p] != NONE && copies[p] > 0)
#else
#define ACCEPTED(p) CAN_LAND(p)
#endif
inline lands(p) { d_step {
    ACCEPTED(p) ->
    copies[p]--;
    worker_write(wk[p], p, mytok[p], wckpt[p], mypaused[p], mygen[p]);
    landed[p]++; later[p] = 0; ans[p] = 1;
    LAW(6, law_one_copy, landed[p] <= 1)
} }

/* The 2xx is lost, or comes after the attempt's timeout. */
inline answer_lost(p) { d_step {
    ans[p] && MAY_FAIL ->
    SPEND; ans[p] = 0
} }

/* A copy is lost before the store; or it is refused there, and that answer is lost. */
inline copy_lost(p) { d_step {
    wk[p] != NONE && copies[p] > 0 && MAY_FAIL ->
    SPEND; copies[p]--
} }

/* A copy lands whose sender is gone. */
inline orphan_lands(k, c) { d_step {
    c <= ROWS && (orphans & BIT(k, c)) != 0 ->
    fresh = tok; target = c;
    if :: k == ACQ -> fresh++ :: else fi;
    if :: k == ACQ || k == BEAT -> target = ckpt :: else fi;
    worker_write(k, GHOST, fresh, target, paused, gen);
    fresh = 0; target = 0
} }
#ifdef BAD_TIMEOUT_IS_FAILURE
inline condemned_lands() { d_step {
    condemned != 0 ->
    condemned = 0;
    LAW(7, law_none_after_lost, false)
} }
#endif

/* Crash at any point, restart with no memory. */
inline crash(p) { d_step {
    st[p] != IDLE && MAY_FAIL ->
    SPEND; orphan(p); forget(p)
} }

#if WIPES > 0
inline rewrite_lands() { d_step {
    rewriting && exists ->
    rewrite(REWRITES)
} }
inline rewrite(oldest, place) {
    LAW(2, law_token_grows, oldest >= toptok);
    LAW(4, law_checkpoint_forward, place >= ckpt);
    rewriting = 0;
    tok = oldest; ckpt = place; owner = FREE;
    applied()
}

/* The document is deleted: every tag is stale, and nothing of it is left but the trace. Nobody is quicker at that than
 * the answer to the request that created it. */
inline wipe() { d_step {
    exists && wipes > 0 && (noticed || (wk[0] != ACQ && wk[1] != ACQ)) ->
    wipes--; exists = 0; tok = 0; ckpt = 0; owner = FREE; paused = 0; okrows = 0; gen++;
    tag[0] = 0; tag[1] = 0; opact = NONE; orphans = 0; condemned = 0; age = 0; rewriting = 0;
    if :: landed[0] > 0 -> later[0] = IDS :: else fi;
    if :: landed[1] > 0 -> later[1] = IDS :: else fi;
    if :: !noticed -> toptok = 0 :: else fi       /* its creator was killed before anybody knew of it */
} }
#endif

/* The operator: read, then the compare-and-swap, however much later. A conflict reads again. */
inline op_wants_resume() { d_step { opact == NONE && exists && paused -> opact = RESUME } }
inline op_wants_pause()  { d_step { opact == NONE && exists && ops > 0 && !paused -> opact = PAUSE } }
inline op_wants_reset()  { d_step {
    opact == NONE && exists && ops > 0 && tok < MAXTOK && (owner == FREE || EXPIRED) ->
    opact = RESET
} }
inline op_wants_break()  { d_step {
    opact == NONE && exists && ops > 0 && tok < MAXTOK && owner != FREE && !EXPIRED ->
    opact = BREAK
} }
#if WIPES > 0
inline op_wants_restore() { d_step {
    opact == NONE && !exists && noticed && ops > 0 && toptok < MAXTOK ->
    opact = RESTORE
} }
#endif
inline op_lands() { d_step {
    opact != NONE ->
    if
#if WIPES > 0
    :: opact == RESTORE ->
        ops--; ckpt = 0; gen++; okrows = 0;
#ifdef BAD_RESTORE_LOW
        tok = 1;
#else
        tok = toptok + 1;
#endif
        LAW(2, law_token_grows, tok > toptok);
#ifdef BAD_RESTORE_FREE
        owner = FREE
#else
        owner = OPER        /* a worker may still trust the document that is gone */
#endif
#endif
    :: opact == PAUSE  -> ops--; paused = 1
    :: opact == RESUME -> paused = 0
    :: opact == RESET || opact == BREAK ->
        ops--; tok++; ckpt = 0; gen++; okrows = 0;
        LAW(2, law_token_grows, tok > toptok);
        if
#ifndef BAD_BREAK_RELEASES
        :: opact == BREAK -> owner = OPER   /* unreleased: free only when a full ttl has passed */
#endif
        :: else -> owner = FREE
        fi
    fi;
    applied()
} }

/* Time. Suspended, stopped and slow processes are those that take no step while it passes. */
inline older() {
    if :: age + COARSE < TTL + MARGIN -> age++ :: else fi
}
inline nearer(p) {
    if :: left[p] > 0  -> left[p]--  :: else fi;
    if :: wleft[p] > 0 -> wleft[p]-- :: else fi
}
#ifdef LIVE
/* Without a fault a write, a beat or a batch takes less than a tick: time passes only while all wait for it. */
#define WAITS(p) (st[p] == IDLE || (HUNG(p) && wk[p] == NONE))
inline tick()      { d_step { WAITS(0) && WAITS(1) -> older(); nearer(0); nearer(1) } }
inline slow_tick() { d_step { !(WAITS(0) && WAITS(1)) && MAY_FAIL -> SPEND; older(); nearer(0); nearer(1) } }
#else
inline tick()      { d_step { true -> older(); nearer(0); nearer(1) } }
#endif
#if DRIFT > 0
/* A tick that the clock of an owner misses. */
#define CAN_DRIFT(p) ((left[p] > 0 || wleft[p] > 0) && (left[p] == 0 || drift[p] > 0) && (wleft[p] == 0 || wdrift[p] > 0))
inline drifts(p) {
    if :: left[p] > 0  -> drift[p]--  :: else fi;
    if :: wleft[p] > 0 -> wdrift[p]-- :: else fi
}
inline tick_missed(p, q)  { d_step { CAN_DRIFT(p) -> older(); drifts(p); nearer(q) } }
inline tick_missed_both() { d_step { CAN_DRIFT(0) && CAN_DRIFT(1) -> older(); drifts(0); drifts(1) } }
#endif
