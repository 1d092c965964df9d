/* Marks between the steps of the code that several threads share. They are nothing here: a build for
 * tests (stress/parallel/stalled.py) gives them a meaning before this file is read.
 *
 *     OTV_STEP()          other threads may come in between here: a place to linger
 *     OTV_LINGER()        the same, where wake-ups get lost: worth more than one visit in many
 *     OTV_SEE(what, ...)  something has just happened that a rule is about; see steps.h there
 *
 * So what is tested is this very code, and what is shipped has not an instruction more.
 */
#ifndef OTV_STEP
#define OTV_STEP() ((void)0)
#define OTV_LINGER() ((void)0)
#define OTV_SEE(what, ...) ((void)0)
#endif
