/* The document, what each poller knows of it, and what happens when a write is sent, lands and is resolved. */

/* ---- the document -------------------------------------------------------------------------------- */
#define GHOST 2     /* owners 0 and 1 are the pollers' present tenures */
#define OPER  3
#define FREE  4     /* released */
bit  exists;
byte tok;
byte owner = FREE;
byte ckpt;
byte age;           /* ticks since Last-Modified, as far as it matters */
bit  paused;
byte gen;           /* checkpoint.generation: resets so far */

byte toptok;        /* the highest token ever; only laws look at it */
byte okrows;        /* rows (bits) whose handler succeeded since the last reset; only laws look at it */
short orphans;      /* copies of writes whose sender is gone, that can still land */
short condemned;    /* the same, but their sender declared that they did not land; only mutants fill it */
#if WIPES > 0
byte wipes = WIPES;
bit  seen[2];       /* this process has seen a document: it looks for a trace no more, and begins none */
bit  noticed;         /* a process's first look at a document is over; only laws look at it */
bit  rewriting;     /* a weekly rewrite is on its way, under the tag that is still the current one */
#ifdef BAD_TRACE_OF_CREATOR
bit  traced;        /* the audit trail names the document */
#else
#define traced noticed
#endif
#define EXISTED noticed
#ifdef BAD_BEGIN_AGAIN
#define MAY_BEGIN(p) (!seen[p])
#else
#define MAY_BEGIN(p) (!seen[p] && !traced)
#endif
#define SAW(p) seen[p] = 1; noticed = 1
#ifdef BAD_TRACE_OF_CREATOR
#define TRACES(p) traced = 1
#else
#define TRACES(p) skip
#endif
#else
#define EXISTED false
#define MAY_BEGIN(p) true
#endif

/* ---- the pollers --------------------------------------------------------------------------------- */
#define IDLE   0
#define ASKING 1    /* the acquire is on its way */
#define HELD   2
#define NONE 0      /* kinds of writes */
#define ACQ  1
#define BEAT 2
#define COM  3      /* commit, lease kept */
#define REL  4      /* commit of whatever is finished, and release */
byte st[2];
bit  tag[2];        /* is the ETag that this tenure holds (and sends as If-Match) still current? */
byte mytok[2];
byte known[2];      /* checkpoint as this tenure knows it */
bit  mypaused[2];   /* control.paused as this tenure knows it */
byte mygen[2];
byte handled[2];    /* rows whose handler succeeded in this tenure */
bit  running[2];    /* the handler is running */
bit  failed[2];     /* the handler failed: release, start nothing */
byte left[2];       /* ticks to the deadline of this tenure; 0: passed */

byte wk[2];         /* the frozen write: kind ... */
byte wckpt[2];      /* ... its checkpoint ... */
byte wleft[2];      /* ... and the deadline it gives when it succeeds, counted from before the first send */
byte copies[2];     /* copies of it on their way to the store */
bit  ans[2];        /* a 2xx is on its way back */
byte landed[2];     /* copies of it applied */
byte later[2];      /* writes applied after it: its place in write_ids */
#if DRIFT > 0
byte drift[2];
byte wdrift[2];
#endif

/* ---- the operator -------------------------------------------------------------------------------- */
#define PAUSE  1
#define RESUME 2
#define RESET  3
#define BREAK  4
#define RESTORE 5
byte ops = OPS;
byte opact;          /* what it wants to write */

byte retry, target, fresh;   /* scratch within a step */

/* ---- judgements ------------------------------------------------------------------------------------ */
#define EXPIRED     (age + COARSE >= TTL + MARGIN)
#define IN_TIME(p)  (st[p] == HELD && left[p] > 0)
#ifdef BAD_RELEASE_BELIEVED
#define BELIEVES(p) IN_TIME(p)
#else
#define BELIEVES(p) (IN_TIME(p) && wk[p] != REL)  /* who has sent a release counts on nothing any more */
#endif
#define MINE(p)     (exists && owner == p && tok == mytok[p])
#define CAN_LAND(p) (wk[p] != NONE && copies[p] > 0 && tag[p])
/* the orphan bit of a write */
#define BIT(k, c)   (1 << (k == ACQ -> 0 : (k == BEAT -> 1 : (k == COM -> 1 + c : 2 + ROWS + c))))
#ifdef BAD_ONE_WRITE_ID
#define KEPT 1
#else
#define KEPT IDS
#endif

/* ---- a write lands --------------------------------------------------------------------------------- */

/* Any applied write: every tag held by anybody is stale now, for ever. */
inline applied() {
    tag[0] = 0; tag[1] = 0; opact = NONE;  /* an operator whose If-Match is stale reads again */
    orphans = 0; condemned = 0; age = 0; exists = 1;
#if WIPES > 0 && !defined(BAD_REWRITE_ANY_TAG)
    rewriting = 0;
#endif
    if :: landed[0] > 0 && later[0] < IDS -> later[0]++ :: else fi;
    if :: landed[1] > 0 && later[1] < IDS -> later[1]++ :: else fi;
    if :: tok > toptok -> toptok = tok :: else fi
}

/* The laws of a worker's write at the instant it lands; `by` is the owner that it names. */
inline worker_write(k, by, newtok, newckpt, newpaused, newgen) {
    LAW(2, law_token_grows, (k == ACQ && newtok > toptok) || (k != ACQ && newtok >= toptok));
    LAW(3, law_current_token, k == ACQ || (exists && owner == by && tok == newtok));
    LAW(4, law_checkpoint_forward, newckpt >= ckpt);
    LAW(9, law_operator_kept, newpaused == paused && newgen == gen && !(k == ACQ && paused));
    LAW(12, law_begun_once, exists || !EXISTED);
    LAW(10, law_rows_handled, (((1 << newckpt) - 1) & ~((1 << ckpt) - 1) & ~okrows) == 0);
    tok = newtok; ckpt = newckpt; paused = newpaused; gen = newgen;
    if
    :: k == REL -> owner = FREE
    :: else     -> owner = by
    fi;
#ifdef BAD_DELETE_ON_RELEASE
    if :: k == REL -> tok = 0; ckpt = 0; okrows = 0 :: else fi;
#endif
    applied();
#ifdef BAD_DELETE_ON_RELEASE
    if :: k == REL -> exists = 0 :: else fi;
#endif
}

/* ---- a tenure ends --------------------------------------------------------------------------------- */

/* An idle poller remembers nothing, so it does not matter which of the two it is: the other one becomes
 * number 0. That halves the search and forbids nothing. With LIVE each poller is a process and keeps its number. */
inline elder() {
#ifndef LIVE
    if :: owner == 1 -> owner = 0 :: else fi;
    st[0] = st[1]; tag[0] = tag[1]; mytok[0] = mytok[1]; known[0] = known[1]; mypaused[0] = mypaused[1];
    mygen[0] = mygen[1]; handled[0] = handled[1]; running[0] = running[1]; failed[0] = failed[1];
    left[0] = left[1]; wk[0] = wk[1]; wckpt[0] = wckpt[1]; wleft[0] = wleft[1]; copies[0] = copies[1];
    ans[0] = ans[1]; landed[0] = landed[1]; later[0] = later[1];
    st[1] = IDLE; tag[1] = 0; mytok[1] = 0; known[1] = 0; mypaused[1] = 0; mygen[1] = 0; handled[1] = 0;
    running[1] = 0; failed[1] = 0; left[1] = 0; wk[1] = NONE; wckpt[1] = 0; wleft[1] = 0; copies[1] = 0;
    ans[1] = 0; landed[1] = 0; later[1] = 0;
#if DRIFT > 0
    drift[0] = drift[1]; wdrift[0] = wdrift[1]; drift[1] = 0; wdrift[1] = 0;
#endif
#if WIPES > 0
    if :: seen[0] != seen[1] -> seen[0] = !seen[0]; seen[1] = !seen[1] :: else fi;
#endif
#endif
    skip
}

/* The end of a tenure. What is still on its way stays on its way, as an orphan or a condemned write. */
inline forget(p) {
    if :: owner == p -> owner = GHOST :: else fi;
    st[p] = IDLE; tag[p] = 0; mytok[p] = 0; known[p] = 0; mypaused[p] = 0; mygen[p] = 0;
    handled[p] = 0; running[p] = 0; failed[p] = 0; left[p] = 0;
    settle(p);
    if :: p == 0 && st[1] != IDLE -> elder() :: else fi
}
inline settle(p) {
    wk[p] = NONE; wckpt[p] = 0; wleft[p] = 0; copies[p] = 0; ans[p] = 0; landed[p] = 0; later[p] = 0;
#if DRIFT > 0
    wdrift[p] = 0;
    if :: left[p] == 0 -> drift[p] = 0 :: else fi;
#endif
}
inline orphan(p) {
    if :: CAN_LAND(p) -> orphans = orphans | BIT(wk[p], wckpt[p]) :: else fi
}
inline condemn(p) {
    if :: CAN_LAND(p) -> condemned = condemned | BIT(wk[p], wckpt[p]) :: else fi
}

/* ---- a write is sent, and resolved ----------------------------------------------------------------- */

/* Freeze bytes, write id and If-Match, and send the first copy. The deadline counts from here. */
inline freeze(p, k, c) {
    LAW(7, law_none_after_lost, k == ACQ || IN_TIME(p));
    LAW(8, law_one_write, !CAN_LAND(p));
    settle(p);
    wk[p] = k; wckpt[p] = c; wleft[p] = LEASE; copies[p] = 1;
#if DRIFT > 0
    wdrift[p] = DRIFT;
#endif
}

/* The write of p is taken for applied; current: is the tag that p now holds the current one? */
inline acknowledge(p) {
    LAW(5, law_ack_visible, landed[p] > 0 && (gen != mygen[p] || ckpt >= wckpt[p]));
}
inline keep(p, current) {
    tag[p] = current; known[p] = wckpt[p];
    if :: wk[p] == ACQ -> handled[p] = wckpt[p] :: else fi;
#if WIPES > 0
    if :: wk[p] == ACQ -> SAW(p); TRACES(p) :: else fi;  /* who created it copies its record at once */
#endif
    st[p] = HELD;
#ifdef BAD_DEADLINE_FROM_ANSWER
    left[p] = LEASE;
#else
    left[p] = wleft[p];
#endif
#if DRIFT > 0
    drift[p] = wdrift[p];
#endif
    settle(p);
    LAW(1, law_one_believer, !(BELIEVES(0) && BELIEVES(1)))
}

/* 412, and the document read again: what became of the frozen write? */
inline resolve(p) {
    if
    :: landed[p] > 0 && later[p] < KEPT ->          /* our id is among write_ids */
        acknowledge(p);
        if
#ifdef BAD_BLIND_ADOPT
        :: wk[p] != REL ->                          /* takes the new tag without a look at the owner */
            keep(p, exists)
#else
        :: wk[p] != REL && MINE(p) ->
            mypaused[p] = paused; mygen[p] = gen;
            keep(p, 1)
#endif
        :: else ->
            forget(p)
        fi
    :: else ->
        if
#ifdef BAD_REDO_ANYTHING
        :: IN_TIME(p) && exists ->                      /* redoes over another owner's document */
#else
        :: IN_TIME(p) && MINE(p) && ckpt == known[p] -> /* an operator wrote beside us: the change again, on that */
#endif
#ifndef BAD_REDO_OLD_BYTES
            mypaused[p] = paused; mygen[p] = gen;
#endif
            retry = wk[p]; target = wckpt[p];
            freeze(p, retry, target);
            tag[p] = 1;
            retry = 0; target = 0
        :: else ->
            LAW(11, law_no_false_loss, !(landed[p] > 0 && later[p] < IDS));
            condemn(p);
            forget(p)
        fi
    fi
}

