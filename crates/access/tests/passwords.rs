//! Passwords are looked at aside, and what is not known is as wrong as what is.

use std::sync::Arc;

use phalanx::{Graph, Runtime};
use phalanx_access::{Passwords, Users, passwd};

#[test]
fn passwords_are_looked_at_by_a_stage() {
    let users = passwd::set("", "eve", b"apple").unwrap();
    let users = Arc::new(Users::parse(&users).unwrap());
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let passwords = Passwords::declare(&mut graph);
    let start = move |start: &phalanx::Start| {
        let (control, users) = (start.control(), users.clone());
        stage.dispatch(move |_| async move {
            for (name, password, right) in
                [("eve", "apple", true), ("eve", "rib", false), ("adam", "apple", false)]
            {
                let found = passwords.verify(&users, name.into(), password.into()).await;
                assert_eq!(found.unwrap(), right, "{name} {password}");
            }
            control.drain();
        })?;
        Ok(())
    };
    Runtime::new().processors(1).signals(false).run(graph, start).unwrap();
}
