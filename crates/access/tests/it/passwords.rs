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
const CROWD: usize = 200;

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
        for (name, password, right) in
            [("eve", "apple", true), ("eve", "rib", false), ("adam", "apple", false)]
        {
            let found = passwords.verify(&users, attempt(name, password, 1)).await;
            assert_eq!(found.unwrap(), right, "{name} {password}");
        }
    });
}

/// Wrong passwords from one address delay neither a user who logged in before nor a client of another
/// address.
#[test]
fn wrong_passwords_do_not_delay_others() {
    run(|stage, passwords, users| async move {
        let right = passwords.verify(&users, attempt("eve", "apple", 1)).await;
        assert_eq!(right, Ok(true));
        let (entered, answered) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        for n in 0..CROWD {
            let (passwords, users) = (passwords.clone(), users.clone());
            let (entered, answered) = (entered.clone(), answered.clone());
            let crowd = move |_| async move {
                entered.set(entered.get() + 1);
                let wrong = attempt(&format!("adam {n}"), "pear", 1);
                assert_ne!(passwords.verify(&users, wrong).await, Ok(true));
                answered.set(answered.get() + 1);
            };
            stage.dispatch(crowd).unwrap();
        }
        while entered.get() < CROWD {
            sleep(Duration::from_millis(1)).await;
        }
        for client in [1, 2] {
            let before = answered.get();
            let right = passwords.verify(&users, attempt("eve", "apple", client)).await;
            assert_eq!(right, Ok(true));
            // Two threads verify, and either of them may start another verification in between.
            let meanwhile = answered.get() - before;
            assert!(
                meanwhile < CROWD / 4,
                "{meanwhile} of the crowd came first, at client {client}"
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
        let refused = loop {
            match passwords.verify(&users, attempt("eve", "pear", 1)).await {
                Ok(false) if failures < 2 * PAIR_FAILURES => failures += 1,
                found => break found,
            }
        };
        assert!(matches!(refused, Err(Refusal::LockedOut(_))), "{refused:?}");
        assert!(failures >= PAIR_FAILURES);
        for (client, name) in [(2, "another address"), (1, "logged in before")] {
            let right = passwords.verify(&users, attempt("eve", "apple", client)).await;
            assert_eq!(right, Ok(true), "{name}");
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
    let waits = sim::block_on(0, None, declare, |(stage, passwords)| async move {
        let calls = (0..3 * CROWD as u64).map(|client| {
            let (passwords, users) = (passwords.clone(), users.clone());
            stage.call(move |_| async move {
                let begun = now();
                let found = passwords.verify(&users, attempt("adam", "apple", client)).await;
                (found, now() - begun)
            })
        });
        join(calls.collect::<Vec<_>>()).await
    });
    let waits: Vec<_> = waits.into_iter().map(Result::unwrap).collect();
    let refused = waits.iter().filter(|(found, _)| *found == Err(Refusal::Busy)).count();
    assert!((1..waits.len()).contains(&refused), "{refused}");
    let longest = waits.iter().map(|(_, wait)| *wait).max().unwrap();
    // The wait of ten seconds, one comparison, and the delays of simulated processors.
    assert!(longest < Duration::from_secs(15), "{longest:?}");
}
