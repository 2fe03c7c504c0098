// SPDX-License-Identifier: Apache-2.0
/* Two runs of the bench that measure by turns, so that both see the same machine: they are joined by
 * a pair of sockets; whoever has the byte measures, and sends it on after some seconds. Whose partner
 * has ended goes on alone. Thread: one. */
#ifndef HR_BENCH_TURNS_H
#define HR_BENCH_TURNS_H

/* Waits for the byte. fd: of the pair, borrowed; -1: there is no partner. */
void bench_turns_begin(int fd);
/* Between two measurements: sends the byte on if the turn is over, and waits for the next one. */
void bench_turns_change(void);
/* Seconds, without those in which the partner had its turns. */
double bench_turns_clock(void);

#endif
