//! Fibres that borrow from their parent.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use phalanx::fibre::LocalFibres;
use phalanx::fibre::sync::channel;
use phalanx::runtime::DriverChoice;
use phalanx::time::now;
use phalanx::{CallError, Session, sleep, timeout, yield_now};

use crate::runtime::harness::one;
use crate::runtime::on_each_driver;

on_each_driver![
    children_borrow_and_run_while_the_parent_waits,
    a_scope_waits_for_fibres_that_nobody_joins,
    a_fibre_of_an_inner_scope_starts_one_in_an_outer_scope,
    a_childs_panic_reaches_the_parent,
    the_end_of_the_parent_ends_its_children,
    a_child_ends_the_session_of_its_parent,
];

const HOUR: Duration = Duration::from_secs(3600);

fn children_borrow_and_run_while_the_parent_waits(driver: DriverChoice) {
    one(driver, |stage| async move {
        let call = stage.fibre(|_, fibre| {
            let numbers: Vec<u32> = (1..=100).collect();
            let (sender, receiver) = channel(1);
            let start = now();
            let sum = fibre.scope(|scope| {
                let halves = numbers.chunks(50).map(|half| {
                    scope.spawn(move |fibre| {
                        fibre.sleep(Duration::from_millis(20));
                        half.iter().sum::<u32>()
                    })
                });
                let halves: Vec<_> = halves.collect();
                let sending = scope.spawn(move |_| (1..=10).try_for_each(|n| sender.send(n)));
                // The parent waits for something other than its children, and they run.
                assert_eq!(receiver.iter().sum::<i32>(), 55);
                sending.join().unwrap();
                halves.into_iter().map(|half| half.join()).sum::<u32>()
            });
            // There is no upper bound, because they may take much longer on a busy machine.
            assert!(now() - start >= Duration::from_millis(20));
            sum
        });
        assert_eq!(call.await, Ok(5050));
    });
}

fn a_scope_waits_for_fibres_that_nobody_joins(driver: DriverChoice) {
    one(driver, |stage| async move {
        let call = stage.fibre(|_, fibre| {
            let log = RefCell::new(Vec::new());
            fibre.scope(|scope| {
                for n in 0..3u64 {
                    let log = &log;
                    drop(scope.spawn(move |fibre| {
                        fibre.sleep(Duration::from_millis(10 - 4 * n));
                        log.borrow_mut().push(n);
                        // A child may start another one.
                        drop(scope.spawn(move |fibre| {
                            fibre.wait(yield_now());
                            log.borrow_mut().push(n + 10);
                        }));
                    }));
                }
            });
            let mut log = log.into_inner();
            log.sort_unstable();
            log
        });
        assert_eq!(call.await, Ok(vec![0, 1, 2, 10, 11, 12]));
    });
}

/// The parent has polled the outer scope when the fibre of the inner one adds to it.
fn a_fibre_of_an_inner_scope_starts_one_in_an_outer_scope(driver: DriverChoice) {
    one(driver, |stage| async move {
        let call = stage.fibre(|_, fibre| {
            let joined = fibre.scope(|outer| {
                fibre.scope(|inner| inner.spawn(|_| outer.spawn(|_| 7).join()).join())
            });
            // The scopes end without a join in the parent.
            let count = Cell::new(0);
            let count_up = || count.set(count.get() + 1);
            fibre.scope(|outer| {
                fibre.scope(|inner| {
                    drop(inner.spawn(|_| {
                        fibre.wait(yield_now());
                        outer.spawn(|_| count_up()).join();
                        count_up();
                    }));
                });
            });
            joined + count.get()
        });
        assert_eq!(timeout(Duration::from_secs(20), call).await, Ok(Ok(9)));
    });
}

fn a_childs_panic_reaches_the_parent(driver: DriverChoice) {
    one(driver, |stage| async move {
        let call = stage.fibre(|_, fibre| {
            let joined = fibre.scope(|scope| {
                let child = scope.spawn(|_| -> u32 { panic!("a child's panic") });
                let joined = catch_unwind(AssertUnwindSafe(|| child.join())).unwrap_err();
                *joined.downcast::<&str>().unwrap()
            });
            let unjoined = || fibre.scope(|scope| drop(scope.spawn(|_| panic!("unjoined"))));
            let partly = || {
                fibre.scope(|scope| {
                    let [one, other] = [(); 2].map(|()| scope.spawn(|_| panic!("both")));
                    let joined = catch_unwind(AssertUnwindSafe(|| one.join()));
                    drop(other);
                    joined.is_err()
                })
            };
            let unjoined = catch_unwind(AssertUnwindSafe(unjoined)).is_err();
            (joined, unjoined, catch_unwind(AssertUnwindSafe(partly)).is_err())
        });
        assert_eq!(call.await, Ok(("a child's panic", true, true)));
    });
}

/// Sets a flag when it is dropped, while `borrowed` is alive.
struct Flags<'b>(&'b str, Rc<Cell<u32>>);

impl Drop for Flags<'_> {
    fn drop(&mut self) {
        assert_eq!(self.0, "alive");
        self.1.set(self.1.get() + 1);
    }
}

fn the_end_of_the_parent_ends_its_children(driver: DriverChoice) {
    one(driver, |stage| async move {
        let dropped = Rc::new(Cell::new(0));
        let count = dropped.clone();
        let call = stage.fibre(move |_, fibre| {
            let text = String::from("alive");
            fibre.scope(|scope| {
                for _ in 0..3 {
                    let flags = Flags(&text, count.clone());
                    drop(scope.spawn(move |fibre| {
                        let flags = flags;
                        fibre.scope(|scope| {
                            let inner = Flags(flags.0, flags.1.clone());
                            drop(scope.spawn(move |fibre| {
                                let _inner = inner;
                                fibre.sleep(HOUR);
                            }));
                        });
                    }));
                }
                fibre.sleep(HOUR);
            });
        });
        sleep(Duration::from_millis(2)).await;
        assert_eq!(dropped.get(), 0);
        call.cancel();
        assert_eq!(call.await, Err(CallError::Cancelled));
        assert_eq!(dropped.get(), 6);
    });
}

/// The parent is suspended while its child runs, but its operation is the running one.
fn a_child_ends_the_session_of_its_parent(driver: DriverChoice) {
    one(driver, |stage| async move {
        let dropped = Rc::new(Cell::new(0));
        let count = dropped.clone();
        let session = Session::new();
        let call = session.scope(|| {
            stage.fibre(move |_, fibre| {
                let text = String::from("alive");
                fibre.scope(|scope| {
                    let child = scope.spawn(|_| {
                        let _flags = Flags(&text, count.clone());
                        drop(Session::current().unwrap().end());
                        assert_eq!(text, "alive");
                    });
                    child.join();
                    fibre.sleep(HOUR);
                });
            })
        });
        assert_eq!(call.await, Err(CallError::Cancelled));
        session.end().await;
        assert_eq!(dropped.get(), 1);
    });
}
