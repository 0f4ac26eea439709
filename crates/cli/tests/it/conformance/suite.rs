//! Runs the whole table against one server.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::http::Client;

use crate::conformance::case::get;
use crate::conformance::check_case::check_case;
use crate::conformance::peers::{PEERS, Peer};
use crate::conformance::table::{self, Group};
use crate::conformance::tree::{Facts, Tree};
use crate::server::Server;

/// Results of one group.
pub(crate) struct Score {
    pub(crate) group: &'static str,
    pub(crate) cases: usize,
    pub(crate) faults: Vec<String>,
}

/// Checks that `phalanx web` on this driver passes every case.
pub(crate) fn conforms(driver: &'static str) {
    let tree = Tree::new();
    let server = Server::start(driver, &tree.root());
    let scores = run(server.address, TIMEOUT).expect("the server answers");
    for Score { group, cases, faults } in &scores {
        println!("{group}: {} of {cases}", cases - faults.len());
    }
    let cases: usize = scores.iter().map(|score| score.cases).sum();
    let faults: Vec<_> = scores.into_iter().flat_map(|score| score.faults).collect();
    assert!(
        faults.is_empty(),
        "{} of {cases} cases failed:\n\n{}",
        faults.len(),
        faults.join("\n\n")
    );
    println!("{cases} cases passed on {driver}");
}

/// Prints the results of other servers by group.
pub(crate) fn other_servers() {
    let tree = Tree::new();
    for name in PEERS {
        let Some(peer) = Peer::start(name, &tree) else { continue };
        let scores = run(peer.address, Duration::from_millis(700)).expect("it answers");
        let all: usize = scores.iter().map(|score| score.cases).sum();
        let failed: usize = scores.iter().map(|score| score.faults.len()).sum();
        println!("{name}: {} of {all}", all - failed);
        for Score { group, cases, faults } in scores {
            println!("  {group}: {} of {cases}", cases - faults.len());
            if std::env::var_os("PHALANX_VERBOSE").is_some() {
                faults.iter().for_each(|fault| println!("{fault}"));
            }
        }
    }
}

/// Runs all cases against a server.
///
/// # Errors
/// When it does not answer a plain request.
pub(crate) fn run(address: SocketAddr, limit: Duration) -> Result<Vec<Score>, String> {
    let facts = facts(address, limit)?;
    let groups = table::all(&facts);
    check_names(&groups);
    Ok(groups
        .into_iter()
        .map(|(group, cases)| Score {
            group,
            cases: cases.len(),
            faults: cases
                .iter()
                .filter_map(|case| check_case(address, case, limit).err())
                .collect(),
        })
        .collect())
}

fn facts(address: SocketAddr, limit: Duration) -> Result<Facts, String> {
    let mut wire = Client::try_connect(address, limit)?;
    wire.try_send(get("/file.txt", "").as_bytes());
    let answer = wire.try_response(false)?;
    let etag = answer.first("ETag").unwrap_or("\"none\"").to_owned();
    Ok(Facts { etag })
}

/// Checks that names are unique and that the number of cases is as documented.
fn check_names(groups: &[Group]) {
    let mut names = BTreeSet::new();
    for case in groups.iter().flat_map(|(_, cases)| cases) {
        assert!(names.insert(&case.name), "two cases are named {}", case.name);
        assert!(case.section.starts_with("RFC "), "{} has no section", case.name);
    }
    assert!(names.len() >= 250, "only {} cases", names.len());
}
