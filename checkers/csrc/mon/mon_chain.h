/* Registers with compare-and-set whose values are unique: chains. No Python in here.
 *
 * Where every value is stored at most once, and the initial one never, each result names the
 * operation that it comes from. A cas a b stands directly behind all that saw a and before all
 * that sees b, so values that cas lead along form a chain that nothing else can come between.
 * All operations of a chain make one zone, as those of a value do in a register (mon_register.c;
 * Gibbons and Korach, SIAM J. Comput. 26(4), 1997, section 4): from the soonest completion to the
 * latest invocation. Where the first comes before the second the register belongs to the chain all
 * that time (a forward zone), else all of it fits into one instant between the two (a backward
 * zone). Without cas that found something else the history is linearizable if and only if
 *
 *     every value seen was stored, by nobody who cannot have been before;
 *     no value is replaced by two cas, and no chain closes in itself;
 *     within a chain nothing that comes before another begins after the other's end;
 *     no two forward zones overlap, and no backward zone lies inside a forward one.
 *
 * Unknown operations count where their value was seen, directly or along a chain, for then they
 * took effect; the others are left out. A cas that found something other than a is impossible where
 * a was in there for certain all the while. Where it is not, the order that these rules make is
 * tried; if that does not serve it either, or values are not unique, the answer is MON_UNFIT.
 */
#ifndef DSTEST_MON_CHAIN_H
#define DSTEST_MON_CHAIN_H

#include "mon.h"

/* One verdict per key: LIN_OK, LIN_ILLEGAL, MON_UNFIT, LIN_MEMORY, LIN_STOPPED. What is illegal
 * stays so with other chains, and with any operation that changes nothing, put in or left out.
 * 0, or -1 with `report` filled where the input is malformed. */
int mon_chains(const struct lin_input *in, const struct lin_limits *limits, uint8_t *verdict,
               struct lin_report *report);

#endif
