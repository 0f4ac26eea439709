//! Password verification runs on separate threads, and an unknown user costs as much as a wrong password.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::time::now;
use phalanx::{Graph, Runtime, SharedStage, join, sim, sleep};
use phalanx_access::{Attempt, Passwords, Users, passwd};
use phalanx_guard::{PAIR_FAILURES, Refusal};

/// Logins attempted at the same time.
const LOGINS: usize = 200;

fn attempt(name: &str, password: &str, client: u64) -> Attempt {
    Attempt { name: name.into(), password: password.into(), client }
}

/// Runs `test` on a worker, with a user `eve` whose password is `apple`.
fn run<F: Future<Output = ()> + 'static>(
    test: impl Fn(SharedStage<()>, Passwords, Arc<Users>) -> F + Clone + Send + Sync + 'static,
) {
    let users = passwd::set("", "eve", b"apple").unwrap();
    let users = Arc::new(Users::parse(&users).unwrap());
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let passwords = Passwords::declare(&mut graph);
    let start = move |start: &phalanx::runtime::StartContext| {
        let (control, test) = (start.control(), test.clone());
        let (passwords, users) = (passwords.clone(), users.clone());
        stage.dispatch(move |_| async move {
            test(stage, passwords, users).await;
            control.drain();
        })?;
        Ok(())
    };
    Runtime::new().processors(1).signals(false).run(graph, start).unwrap();
}

#[test]
fn passwords_are_verified_by_a_stage() {
    run(|_, passwords, users| async move {
        for (name, password, expected) in
            [("eve", "apple", true), ("eve", "rib", false), ("adam", "apple", false)]
        {
            let result = passwords.verify(&users, attempt(name, password, 1)).await;
            assert_eq!(result.unwrap(), expected, "{name} {password}");
        }
    });
}

/// Wrong passwords from one address delay neither a user who logged in before nor a client of another
/// address.
#[test]
fn wrong_passwords_do_not_delay_others() {
    run(|stage, passwords, users| async move {
        let result = passwords.verify(&users, attempt("eve", "apple", 1)).await;
        assert_eq!(result, Ok(true));
        let (started, finished) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        for n in 0..LOGINS {
            let (passwords, users) = (passwords.clone(), users.clone());
            let (started, finished) = (started.clone(), finished.clone());
            let login = move |_| async move {
                started.set(started.get() + 1);
                let invalid = attempt(&format!("adam {n}"), "pear", 1);
                assert_ne!(passwords.verify(&users, invalid).await, Ok(true));
                finished.set(finished.get() + 1);
            };
            stage.dispatch(login).unwrap();
        }
        while started.get() < LOGINS {
            sleep(Duration::from_millis(1)).await;
        }
        for client in [1, 2] {
            let before = finished.get();
            let result = passwords.verify(&users, attempt("eve", "apple", client)).await;
            assert_eq!(result, Ok(true));
            // Two threads verify, and either of them may start another verification in between.
            let finished_meanwhile = finished.get() - before;
            assert!(
                finished_meanwhile < LOGINS / 4,
                "{finished_meanwhile} of the crowd came first, at client {client}"
            );
        }
    });
}

#[test]
fn failed_logins_lock_out_a_user_per_address() {
    run(|_, passwords, users| async move {
        assert_eq!(passwords.verify(&users, attempt("eve", "apple", 1)).await, Ok(true));
        let mut failures = 0;
        // The lockout time doubles, so the test reaches a lockout however slow the machine is.
        let rejected = loop {
            match passwords.verify(&users, attempt("eve", "pear", 1)).await {
                Ok(false) if failures < 2 * PAIR_FAILURES => failures += 1,
                found => break found,
            }
        };
        assert!(matches!(rejected, Err(Refusal::LockedOut(_))), "{rejected:?}");
        assert!(failures >= PAIR_FAILURES);
        for (client, name) in [(2, "another address"), (1, "logged in before")] {
            let result = passwords.verify(&users, attempt("eve", "apple", client)).await;
            assert_eq!(result, Ok(true), "{name}");
        }
    });
}

/// A client at each address of a crowd, more than are verified in time.
#[test]
fn a_login_waits_for_a_bounded_time() {
    // Mosquitto's salted SHA-512, which takes microseconds.
    let users = Users::parse(&format!("eve:$6$c2FsdA==${}==\n", "A".repeat(86))).unwrap();
    let users = Arc::new(users);
    let declare = |graph: &mut Graph| (graph.shared("test", ()), Passwords::declare(graph));
    let results = sim::block_on(0, None, declare, |(stage, passwords)| async move {
        let calls = (0..3 * LOGINS as u64).map(|client| {
            let (passwords, users) = (passwords.clone(), users.clone());
            stage.call(move |_| async move {
                let start = now();
                let result = passwords.verify(&users, attempt("adam", "apple", client)).await;
                (result, now() - start)
            })
        });
        join(calls.collect::<Vec<_>>()).await
    });
    let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    let rejected = results.iter().filter(|(result, _)| *result == Err(Refusal::Busy)).count();
    assert!((1..results.len()).contains(&rejected), "{rejected}");
    let longest = results.iter().map(|(_, wait)| *wait).max().unwrap();
    // The wait of ten seconds, one comparison, and the delays of simulated processors.
    assert!(longest < Duration::from_secs(15), "{longest:?}");
}
