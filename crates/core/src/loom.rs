//! Loom models of the concurrent primitives. Loom explores every interleaving of two or three threads,
//! with rings of two values. `cargo xtask loom` runs them.
//!
//! # Safety
//! `unsafe` code accesses the state behind the gate, and the data of an owner and its visitors. Comments at these
//! places explain why it is sound.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use crate::gate::Gate;
use crate::mailbox::command::Command;
use crate::mailbox::mailbox::{Inbox, ReadyMask};
use crate::mailbox::parking::Parking;
use crate::operation::cancel_flag::{CancelFlag, RemoteSlot};
use crate::operation::join_table::Countdown;
use crate::operation::state::Serial;
use crate::processor::policy::replication::holders::Holders;
use crate::program::busy::BusyGuard;
use crate::program::program::Program;
use crate::queue::ring::Ring;
use crate::session::group::Group;
use crate::stage::settings::Settings;
use crate::state::exclusive::{ExclusiveState, LocalExclusive};
use crate::state::rebuildable::Rebuildable;
use crate::sync::UnsafeCell;

#[test]
fn ring_loses_and_doubles_nothing() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        let producers: Vec<_> = (0..2)
            .map(|n| {
                let ring = ring.clone();
                thread::spawn(move || ring.push(n).is_ok())
            })
            .collect();
        let mut seen = Vec::new();
        seen.extend(ring.pop());
        let pushed = producers.into_iter().map(|producer| producer.join().unwrap());
        assert_eq!(pushed.filter(|ok| *ok).count(), 2);
        while let Some(value) = ring.pop() {
            seen.push(value);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
    });
}

#[test]
fn two_takers_get_different_values() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        assert!(ring.push(1).is_ok() && ring.push(2).is_ok());
        let other = {
            let ring = ring.clone();
            thread::spawn(move || ring.pop())
        };
        let mut seen = vec![ring.pop().unwrap(), other.join().unwrap().unwrap()];
        seen.sort_unstable();
        assert_eq!((seen, ring.pop()), (vec![1, 2], None));
    });
}

#[test]
fn a_full_ring_refuses_and_recovers() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        assert!(ring.push(1).is_ok() && ring.push(2).is_ok());
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(3).is_ok())
        };
        let first = ring.pop();
        let third = producer.join().unwrap();
        let mut rest = Vec::new();
        while let Some(value) = ring.pop() {
            rest.push(value);
        }
        assert_eq!(first, Some(1));
        assert_eq!(rest, if third { vec![2, 3] } else { vec![2] });
    });
}

/// A sender publishes and notifies while the owner decides to park, and another thread may visit the owner: the
/// owner sees the work or is unparked. After a lost wake-up, neither would hold at the last assertion.
fn assert_no_wake_is_lost(visited: bool) {
    loom::model(move || {
        let parking = Arc::new(Parking::default());
        let unparked = Arc::new(AtomicBool::new(false));
        let flag = unparked.clone();
        parking.install(Box::new(move || flag.store(true, Ordering::Release)));
        let pending = Arc::new(ReadyMask::default());
        let visitor = visited.then(|| {
            let parking = parking.clone();
            thread::spawn(move || drop(parking.visit()))
        });
        let sender = {
            let (parking, pending) = (parking.clone(), pending.clone());
            thread::spawn(move || {
                pending.mark(Inbox::Stage(0));
                parking.notify();
            })
        };
        let sleeps = parking.may_sleep(|| pending.is_empty());
        sender.join().unwrap();
        visitor.into_iter().for_each(|visitor| visitor.join().unwrap());
        assert!(!sleeps || unparked.load(Ordering::Acquire), "asleep with work and no wake-up");
    });
}

#[test]
fn park_never_misses_a_wake() {
    assert_no_wake_is_lost(false);
}

#[test]
fn a_visit_loses_no_wake() {
    assert_no_wake_is_lost(true);
}

/// Two senders and one parked owner: exactly one of the senders makes the system call.
#[test]
fn one_sender_pays_for_the_wake() {
    loom::model(|| {
        let parking = Arc::new(Parking::default());
        assert!(parking.may_sleep(|| true));
        let wakes = Arc::new(AtomicUsize::new(0));
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let (parking, wakes) = (parking.clone(), wakes.clone());
                thread::spawn(move || {
                    wakes.fetch_add(parking.notify() as usize, Ordering::Relaxed);
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
    });
}

/// The data of an owner, which visitors access.
struct Data(UnsafeCell<u32>);

// SAFETY: this is what the model checks; loom reports concurrent accesses.
unsafe impl Sync for Data {}
// SAFETY: as above.
unsafe impl Send for Data {}

impl Data {
    fn touch(&self) {
        // SAFETY: exclusive, as the model checks.
        self.0.with_mut(|data| unsafe { *data += 1 });
    }
}

/// Another thread visits the owner before, during or after its sleep. The owner wakes up, or visits itself: the
/// accesses of the two threads do not overlap.
#[test]
fn a_visit_excludes_the_owner() {
    for wakes in [true, false] {
        loom::model(move || {
            let (parking, data) =
                (Arc::new(Parking::default()), Arc::new(Data(UnsafeCell::new(0))));
            let visitor = {
                let (parking, data) = (parking.clone(), data.clone());
                thread::spawn(move || {
                    if let Some(_visit) = parking.visit() {
                        data.touch();
                    }
                })
            };
            data.touch();
            assert!(parking.may_sleep(|| true));
            if wakes {
                parking.set_awake(loom::hint::spin_loop);
                data.touch();
            } else {
                let _visit = parking.visit_self();
                data.touch();
            }
            visitor.join().unwrap();
        });
    }
}

/// The mark of an inbox and its contents agree: when the owner takes a mark, it also finds the value.
#[test]
fn pending_mark_and_ring_agree() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        let pending = Arc::new(ReadyMask::default());
        let sender = {
            let (ring, pending) = (ring.clone(), pending.clone());
            thread::spawn(move || {
                ring.push(7).unwrap();
                pending.mark(Inbox::Stage(3));
            })
        };
        let mut found = None;
        if pending.take().contains(Inbox::Stage(3)) {
            found = ring.pop();
            assert_eq!(found, Some(7), "marked but empty");
        }
        sender.join().unwrap();
        if found.is_none() {
            assert!(pending.take().contains(Inbox::Stage(3)), "filled but not marked");
        }
    });
}

/// Two children reply from two processors. The parent's processor counts the replies as it finds them,
/// guided only by the marks, and wakes the parent once, with both results.
#[test]
fn a_join_is_over_once_and_with_all_results() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        let pending = Arc::new(ReadyMask::default());
        let children: Vec<_> = (1..=2)
            .map(|result| {
                let (ring, pending) = (ring.clone(), pending.clone());
                thread::spawn(move || {
                    ring.push(result).unwrap();
                    pending.mark(Inbox::Replies);
                })
            })
            .collect();
        let countdown = Countdown::default();
        countdown.start(2);
        let (mut enabled, mut sum) = (0, 0);
        let mut drain_mailbox = || {
            if pending.take().contains(Inbox::Replies) {
                while let Some(result) = ring.pop() {
                    sum += result;
                    enabled += u32::from(countdown.arrive());
                }
            }
        };
        drain_mailbox();
        children.into_iter().for_each(|child| child.join().unwrap());
        drain_mailbox();
        assert_eq!((enabled, sum), (1, 3));
    });
}

/// Two processors try to run a cohort of an exclusive stage. At most one is inside, and it reads what
/// the other wrote.
#[test]
fn an_exclusive_stage_lets_one_in() {
    loom::model(|| {
        let inside = Arc::new(loom::cell::UnsafeCell::new(0u32));
        let state = std::sync::Arc::new(ExclusiveState::new(Rebuildable::new("stage", (), None)));
        let cohort = |inside: Arc<loom::cell::UnsafeCell<u32>>, state| {
            move || {
                let gate = LocalExclusive::new(state);
                let entered = gate.enter();
                if entered {
                    // SAFETY: the model proves exclusive access; loom's cell panics otherwise.
                    inside.with_mut(|count| unsafe { *count += 1 });
                    gate.leave();
                }
                u32::from(entered)
            }
        };
        let other = thread::spawn(cohort(inside.clone(), state.clone()));
        let entered = cohort(inside.clone(), state)() + other.join().unwrap();
        assert!(entered >= 1, "an open gate refused both");
        // SAFETY: the other thread has been joined.
        assert_eq!(inside.with(|count| unsafe { *count }), entered);
    });
}

/// One processor accepts an operation of a session while another ends the session: the operation is
/// rejected, or its processor receives the command to end it.
#[test]
fn a_session_ends_wherever_it_has_been() {
    loom::model(|| {
        let group = Arc::new(Group::new(2, u64::MAX));
        assert!(group.register(0));
        let taker = {
            let group = group.clone();
            // Visits twice, because the second time the visit is already recorded.
            thread::spawn(move || (group.register(1), group.register(1)))
        };
        let notified = group.end();
        let (first, second) = taker.join().unwrap();
        assert!(!first && !second || notified.contains(&1), "taken up, but nobody was notified");
        assert!(notified.contains(&0) && !group.register(1));
    });
}

/// A caller cancels its child while another processor accepts it: one of the two sees the cancellation.
#[test]
fn a_child_elsewhere_is_ended_by_one_of_two() {
    const PLACE: RemoteSlot = RemoteSlot { processor: 1, index: 3, serial: Serial::from_word(7) };
    loom::model(|| {
        let flag = Arc::new(CancelFlag::default());
        let target = {
            let flag = flag.clone();
            thread::spawn(move || flag.arrive(PLACE))
        };
        let ordered = flag.cancel();
        let refused = target.join().unwrap();
        assert_eq!(ordered.is_none(), refused);
        assert!(ordered.is_none_or(|place| place == PLACE));
    });
}

/// A processor takes a replica, or displaces one and takes it again, while the owner revokes the value: the
/// processor stores nothing, or the owner sends it a command.
#[test]
fn a_stored_replica_is_told_of_the_revocation() {
    for evicted in [false, true] {
        loom::model(move || {
            let holders = Arc::new(Holders::new(2));
            let reader = {
                let holders = holders.clone();
                thread::spawn(move || {
                    let stored = holders.add(1);
                    if !evicted {
                        return stored;
                    }
                    holders.remove(1);
                    holders.add(1)
                })
            };
            let notified = holders.revoke();
            let stored = reader.join().unwrap();
            assert!(!stored || notified.contains(&1), "stored, but not notified");
            assert!(!notified.contains(&0) && !holders.add(0));
        });
    }
}

/// A processor that has received a message sent after the revocation does not find the value.
#[test]
fn a_revocation_precedes_later_messages() {
    loom::model(|| {
        let holders = Arc::new(Holders::new(2));
        let pending = Arc::new(ReadyMask::default());
        assert!(holders.add(1));
        let owner = {
            let (holders, pending) = (holders.clone(), pending.clone());
            thread::spawn(move || {
                assert_eq!(holders.revoke(), [1]);
                pending.mark(Inbox::Replies);
            })
        };
        if pending.take().contains(Inbox::Replies) {
            assert!(holders.is_revoked(1), "found after the answer");
        }
        owner.join().unwrap();
    });
}

/// A program of two processors without stages, and their guards.
fn two_processors() -> [BusyGuard; 2] {
    let program = Program::new(0, Vec::new(), Settings::default(), 2);
    [0, 1].map(|index| BusyGuard::new(program.clone(), index))
}

/// Sends a command, as a flush of the outbox does. The command counts when it is dropped.
fn send(program: &Program, target: usize, dropped: &Arc<AtomicUsize>) {
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let counted = OnDrop(dropped.clone());
    let mailbox = &program.mailboxes[target];
    assert!(mailbox.commands.push(Command::new(move |_| drop(counted))).is_ok());
    mailbox.mark(Inbox::Commands);
    program.return_if_closed(target);
}

/// A processor ends, or is never built, while two others send to it: no message stays.
#[test]
fn no_message_stays_in_a_closed_mailbox() {
    loom::model(|| {
        let [sender, ending] = two_processors();
        let program = sender.program.clone();
        let dropped = Arc::new(AtomicUsize::new(0));
        let other = {
            let (program, dropped) = (program.clone(), dropped.clone());
            thread::spawn(move || send(&program, 1, &dropped))
        };
        let closing = thread::spawn(move || drop(ending));
        send(&program, 1, &dropped);
        other.join().unwrap();
        closing.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    });
}

/// A processor sends a command and becomes idle. Another one that then finds the program idle finds the command.
#[test]
fn the_last_command_precedes_the_end_of_a_program() {
    loom::model(|| {
        let [sender, receiver] = two_processors();
        let program = receiver.program.clone();
        let dropped = Arc::new(AtomicUsize::new(0));
        receiver.mark_idle();
        let sends = thread::spawn(move || {
            send(&sender.program, 1, &dropped);
            sender.mark_idle();
            sender
        });
        if program.is_idle() {
            assert_eq!(
                program.mailboxes[1].commands_waiting(),
                1,
                "idle, and the command is not there"
            );
        }
        drop(sends.join().unwrap());
    });
}
