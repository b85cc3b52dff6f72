/*
 * The lease and commit protocol of poller, for the model checker SPIN.
 *
 * One state document in a store, two pollers, an operator, a network that loses, delays and duplicates,
 * crashes at any point, and a clock. README.md beside this file says what each step stands for in the
 * code, which abstractions are made and why they lose nothing, and how to run it by hand.
 *
 * Every step is one d_step guarded by the state, and all interleavings of the steps are explored. Three
 * representations carry most of the weight:
 *
 *   ETag     A tag is never used twice, so the only question ever asked of one is "is it still the
 *            current one?". tag[p] is that bit; every write that is applied clears everybody's.
 *   Owner    Each tenure has an owner id of its own. When a tenure ends (crash, lost, given up), its name
 *            in the document becomes GHOST: nobody will ever again recognise it as his own.
 *   Orphans  Copies of a write whose sender is gone may land at any later time. Only those under the
 *            current tag can; each is a bit of `orphans`, by what it would write.
 *
 * BAD_...  are mutants, each a wrong idea of the protocol: SPIN must find the law that it breaks.
 */

/* ---- sizes; a run may set them with -D. The protocol needs COARSE + DRIFT <= GRACE + MARGIN, and the
 * sizes here are tight: one tick less of margin, and two believe. --------------------------------- */
#ifndef ROWS
#define ROWS 2      /* rows to deliver, one per batch; the checkpoint is the number of rows passed */
#endif
#ifndef MAXTOK
#ifdef LIVE
#define MAXTOK 99   /* never reached: there the faults bound the search */
#else
#define MAXTOK 3    /* no acquire above this token: bounds the search */
#endif
#endif
#ifndef OPS
#define OPS 1       /* pauses, resets and broken leases by the operator; a resume is always allowed */
#endif
#ifndef COPIES
#define COPIES 1    /* copies of one frozen write on their way at the same time */
#endif
#ifndef TTL
#define TTL 2       /* clock ticks */
#endif
#ifndef GRACE
#define GRACE 0     /* the owner stops this much before the ttl */
#endif
#ifndef MARGIN
#define MARGIN 1    /* a taker waits this much beyond the ttl */
#endif
#ifndef COARSE
#define COARSE 1    /* Date and Last-Modified are truncated: a taker may see this much too much age */
#endif
#ifndef DRIFT
#define DRIFT 0     /* ticks an owner's clock may miss within one deadline */
#endif
#if defined(BAD_BEGIN_AGAIN) || defined(BAD_TRACE_OF_CREATOR) || defined(BAD_RESTORE_LOW) || defined(BAD_RESTORE_FREE) \
    || defined(BAD_REWRITE_LIVE) || defined(BAD_REWRITE_ANY_TAG)
#define WIPES 1
#endif
#ifndef WIPES
#define WIPES 0     /* how often a document is deleted; with 1 or more the weekly rewrite, too, is in the model */
#endif
#ifndef FAULTS
#define FAULTS 2    /* only with LIVE: lost messages, crashes, failed or hung handlers, slow ticks, all together */
#endif
#ifndef IDS
#define IDS 2       /* write ids that a document keeps (8 in the code; a few make forgetting one reachable) */
#endif
#define LEASE (TTL - GRACE)
/* PIPELINE, if defined: a batch may start while the last one's commit is on its way (protocol 7 allows it). */

/* ---- laws: one name each, so that a violation says which; ONLY=n checks the n-th alone ---------- */
#ifndef ONLY
#define ONLY 0
#endif
#define LAW(n, name, cond) assert((cond) || (ONLY != 0 && ONLY != n) || name)
bit law_one_believer;       /*  1 at most one process believes that its deadline is ahead (looked at where a belief begins) */
bit law_token_grows;        /*  2 every acquire and every broken lease raises the token; nothing resets it */
bit law_current_token;      /*  3 a worker changes the document only as its owner under the current token */
bit law_checkpoint_forward; /*  4 a worker never moves the checkpoint back */
bit law_ack_visible;        /*  5 what a worker takes for committed is in the document */
bit law_one_copy;           /*  6 at most one copy of a write id lands */
bit law_none_after_lost;    /*  7 nothing is started after the deadline; what was called lost never lands */
bit law_one_write;          /*  8 within a tenure no write starts while another is unresolved */
bit law_operator_kept;      /*  9 no worker undoes a pause or a reset, or acquires over a pause */
bit law_rows_handled;       /* 10 the checkpoint passes no row whose handler did not succeed */
bit law_no_false_loss;      /* 11 a write that landed, and whose id is still kept, is not called lost */
bit law_begun_once;         /* 12 no process creates a document that a process has seen: only the operator does */

#include "document.pml"
#include "poller.pml"
#include "world.pml"

/* ---- processes --------------------------------------------------------------------------------------
 * For safety one process that may do any step is enough, and its state is small. For liveness every
 * actor is a process, so that weak fairness speaks of each.
 */
#ifndef LIVE
active proctype World() {
    do
    :: ask(0) :: answered(0) :: refused(0) :: resend(0) :: beat(0) :: commit(0) :: release(0) :: give_up(0)
    :: ask(1) :: answered(1) :: refused(1) :: resend(1) :: beat(1) :: commit(1) :: release(1) :: give_up(1)
    :: batch_starts(0) :: batch_succeeds(0) :: batch_fails(0) :: lands(0) :: answer_lost(0) :: copy_lost(0) :: crash(0)
    :: batch_starts(1) :: batch_succeeds(1) :: batch_fails(1) :: lands(1) :: answer_lost(1) :: copy_lost(1) :: crash(1)
    :: orphan_lands(ACQ, 0) :: orphan_lands(BEAT, 0) :: orphan_lands(COM, 1)
    :: orphan_lands(REL, 0) :: orphan_lands(REL, 1) :: orphan_lands(REL, 2)
#if ROWS > 2
    :: orphan_lands(COM, 2) :: orphan_lands(REL, 3)
#endif
#if OPS > 0
    :: op_wants_pause() :: op_wants_resume() :: op_wants_reset() :: op_wants_break() :: op_lands()
#endif
#if WIPES > 0
    :: look(0) :: look(1) :: restart(0) :: restart(1) :: rewrite_frozen() :: rewrite_lands() :: wipe()
    :: op_wants_restore()
#endif
    :: tick()
#if DRIFT > 0
    :: tick_missed(0, 1) :: tick_missed(1, 0) :: tick_missed_both()
#endif
#ifdef BAD_TIMEOUT_IS_SUCCESS
    :: timeout_is_success(0) :: timeout_is_success(1)
#endif
#ifdef BAD_TIMEOUT_IS_FAILURE
    :: timeout_is_failure(0) :: timeout_is_failure(1) :: condemned_lands()
#endif
#ifdef BAD_COMMIT_UNHANDLED
    :: commit_unhandled(0) :: commit_unhandled(1)
#endif
    od
}
#else
proctype Poller(bit p)  { do :: ask(p) :: answered(p) :: refused(p) :: resend(p) :: commit(p) :: release(p) :: give_up(p) od }
proctype Beater(bit p)  { do :: beat(p) od }
proctype Handler(bit p) { do :: batch_starts(p) :: batch_succeeds(p) :: batch_fails(p) :: batch_hangs(p) od }
proctype Network(bit p) { do :: lands(p) :: answer_lost(p) :: copy_lost(p) od }
proctype Mishap() {
    do
    :: crash(0) :: crash(1)
    :: orphan_lands(ACQ, 0) :: orphan_lands(BEAT, 0) :: orphan_lands(COM, 1)
    :: orphan_lands(REL, 0) :: orphan_lands(REL, 1) :: orphan_lands(REL, 2)
    od
}
proctype Operator() {
    do
    :: op_wants_pause() :: op_wants_resume() :: op_wants_reset() :: op_wants_break() :: op_lands()
    od
}
proctype Clock() { do :: tick() :: slow_tick() od }
init {
    atomic {
        run Poller(0); run Beater(0); run Handler(0); run Network(0);
        run Poller(1); run Beater(1); run Handler(1); run Network(1);
        run Mishap(); run Operator(); run Clock()
    }
}

/* With finitely many faults all rows are delivered and stay so; for that, whoever lives must acquire. */
ltl delivered { <> [] (ckpt == ROWS) }
#endif
