//! Suspension for another lookup: the remaining work becomes a continuation.

use std::sync::Arc;

use super::fields::HEADERS;
use super::{ActionOrigin, Frame, List, Translator, Unknown, say};
use crate::key::{CONNECTION, CONTINUATION, ENTRY_WORDS};
use crate::pipeline::{Continuation, PendingWork, Step, Suspended};
use crate::wire::{Action, Instruction, PacketInReason, PortNumber};

impl<'a> Translator<'a> {
    /// The packet is parsed again before it goes on.
    pub(super) fn look_again(&mut self, base: usize) {
        self.commit();
        let next = self.suspend(base, false);
        say!(self, "headers are to be looked at again: it goes on as {}", next.number);
        self.steps.push(Step::Continue(next));
        self.stop(base);
    }

    /// Nothing more is done above a mark.
    pub(super) fn stop(&mut self, base: usize) {
        self.frames.truncate(base);
        self.suspended = true;
    }

    /// Returns the continuation of the work above a mark. `tracked` says that the connection is
    /// known by then.
    pub(super) fn suspend(&mut self, base: usize, tracked: bool) -> Arc<Continuation> {
        let rest = self.frames[base..].iter().map(rest).collect();
        self.suspend_with(rest, tracked)
    }

    pub(super) fn suspend_with(
        &mut self,
        rest: Vec<PendingWork>,
        tracked: bool,
    ) -> Arc<Continuation> {
        let mut written = self.packet.written;
        let mut key = self.packet.key;
        written.words_mut()[HEADERS].fill(0);
        written.words_mut()[ENTRY_WORDS..].fill(u64::MAX);
        written.words_mut()[CONTINUATION.word] &= !0xffff_ffff;
        if tracked {
            written.words_mut()[CONNECTION].fill(0);
        }
        key = key.under(&written);
        let (continuation, known) = self.shared_state.continuations.intern(Suspended {
            key,
            written,
            rest,
            set: self.packet.set.iter().map(|&action| action.clone()).collect(),
            stack: self.packet.stack.clone(),
            queue: self.packet.queue,
        });
        self.decision.holds &= known;
        continuation
    }

    /// The state a packet was left in is taken up again.
    pub(super) fn take_up(&mut self, from: &'a Suspended) {
        let (key, written) = (self.packet.key.words_mut(), from.written.words());
        for ((word, then), written) in key.iter_mut().zip(from.key.words()).zip(written) {
            *word = *word & !written | then & written;
        }
        self.packet.written = from.written;
        self.packet.set = from.set.iter().collect();
        self.packet.stack.clone_from(&from.stack);
        self.packet.queue = from.queue;
        for rest in &from.rest {
            let place = |table, cookie| ActionOrigin {
                table,
                cookie,
                flow: None,
                reason: PacketInReason::Action,
                depth: 0,
            };
            self.frames.push(match rest {
                PendingWork::Table(table) => Frame::Table {
                    table: *table,
                    goto: true,
                    port: None,
                    original: false,
                    depth: 0,
                },
                PendingWork::Instructions { table, cookie, instructions } => {
                    Frame::Instructions { list: instructions, place: place(*table, *cookie) }
                }
                PendingWork::Actions { table, cookie, actions } => Frame::Actions {
                    list: List::Flow(actions),
                    at: 0,
                    place: place(*table, *cookie),
                },
            });
        }
        self.packet.unknown = Unknown::Nothing;
    }

    /// Returns true if an action has made flows forget the packet's connection.
    pub(super) fn has_forgotten_connection(&self) -> bool {
        let written = &self.packet.written.words()[CONNECTION];
        let known = &self.packet.key.words()[CONNECTION];
        written.iter().all(|word| *word == u64::MAX) && known.iter().all(|word| *word == 0)
    }

    pub(super) fn forget_connection(&mut self) {
        self.packet.key.words_mut()[CONNECTION].fill(0);
        self.packet.written.words_mut()[CONNECTION].fill(u64::MAX);
    }
}

fn rest(frame: &Frame<'_>) -> PendingWork {
    match frame {
        Frame::Table { table, goto: true, .. } => PendingWork::Table(*table),
        Frame::Table { table, port, original, .. } => PendingWork::Actions {
            table: *table,
            cookie: u64::MAX,
            actions: vec![Action::Resubmit {
                port: port.map_or(PortNumber::IN_PORT, PortNumber),
                table: *table,
                original: *original,
            }],
        },
        Frame::Actions { list, at, place } => PendingWork::Actions {
            table: place.table,
            cookie: place.cookie,
            actions: match list {
                List::Flow(actions) => actions[*at..].to_vec(),
                List::Ordered(actions) => {
                    actions[*at..].iter().map(|&action| action.clone()).collect()
                }
            },
        },
        Frame::Instructions { list, place } => PendingWork::Instructions {
            table: place.table,
            cookie: place.cookie,
            instructions: list.iter().filter(|one| is_later(one)).cloned().collect(),
        },
    }
}

fn is_later(instruction: &Instruction) -> bool {
    !matches!(instruction, Instruction::ApplyActions(_) | Instruction::Meter(_))
}
