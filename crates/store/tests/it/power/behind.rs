//! A disk that fails while a mirror that has lost all batches is opened again.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::sim::{self, Faults};
use phalanx::{Graph, sleep};
use phalanx_store::{
    AppendError, Entry, LocalFuture, MakeMirror, Mirror, MirrorLost, Record, SessionId, Store,
    recover,
};

use crate::power::copies::{Copies, Stored, batches};
use crate::power::{Files, options};

/// A mirror whose copy takes a second to open.
struct Slow(Rc<Copies>);

impl Mirror for Slow {
    fn open(&self, id: u64, first: u64, next: u64) -> LocalFuture<'_, Result<u64, MirrorLost>> {
        Box::pin(async move {
            let first_missing = self.0.open(id, first, next).await;
            sleep(Duration::from_secs(1)).await;
            first_missing
        })
    }

    fn is_behind(&self) -> bool {
        self.0.is_behind()
    }

    fn complete(&self) -> LocalFuture<'_, Result<(), MirrorLost>> {
        self.0.complete()
    }

    fn append(&self, number: u64, batch: Bytes) -> LocalFuture<'_, Result<(), MirrorLost>> {
        self.0.append(number, batch)
    }

    fn trim(self: Rc<Self>, first: u64) -> LocalFuture<'static, ()> {
        self.0.clone().trim(first)
    }
}

/// The results of three appends, each of a session. The mirror loses all batches at the second one, and from then on
/// the disk fails with `faults` for this time. Also returns the numbers of the sessions on the disk and in the mirror
/// after a power cut.
fn lost_before(faults: Faults, time: Duration) -> (Vec<Result<(), AppendError>>, [Vec<u64>; 2]) {
    let options = options(1);
    let copies = Copies::of(Stored::new(), Some(2));
    let results: Rc<RefCell<Vec<_>>> = Rc::default();
    let files: Rc<RefCell<Files>> = Rc::default();
    sim::run(1, |world| {
        let mut graph = Graph::new();
        let stage = graph.shared("user", ());
        let (store, _) =
            Store::open_in(&Files::new(), world.root(), Path::new("/"), options).unwrap();
        let own = copies.clone();
        let mirror: MakeMirror = Box::new(|| Rc::new(Slow(Rc::new(own))));
        let journal = store.declare_mirrored(&mut graph, |_, _| Some(mirror));
        let of_user = results.clone();
        world.program(graph, move |start| {
            if start.processor() > 0 {
                return Ok(());
            }
            let (journal, results) = (journal.clone(), of_user.clone());
            stage.dispatch(move |_| async move {
                for session in (1..4).map(SessionId) {
                    let mut entry = Entry::new();
                    let (client, expiry, left, will) = ("c", 60, 0, &[][..]);
                    entry.push(&Record::Session { session, client, expiry, left, will });
                    let kept = journal.append(entry).await;
                    results.borrow_mut().push(kept);
                }
            })?;
            Ok(())
        });
        let (net, copies, results, files) =
            (world.net(), copies.clone(), results.clone(), files.clone());
        world.client(async move {
            while !copies.state().0 {
                net.sleep(Duration::from_millis(1)).await;
            }
            net.set_faults(faults);
            net.sleep(time).await;
            net.set_faults(Faults::NONE);
            while results.borrow().len() < 3 {
                net.sleep(Duration::from_millis(1)).await;
            }
            let name = "000000000001.journal";
            let left = net.content_after_power_cut(name).unwrap();
            files.borrow_mut().insert(name.to_owned(), left);
        });
    });
    let disk = recover(&*files.borrow(), Path::new("/")).unwrap();
    let id = options.salt.unwrap();
    let mirror = batches(id, &copies.stored()).recover(Path::new("mirror")).unwrap();
    let sessions =
        [disk, mirror].map(|it| it.sessions.into_keys().map(|session| session.0).collect());
    (results.take(), sessions)
}

/// The second entry is on the disk before the mirror has lost the first one.
#[test]
fn an_entry_on_the_disk_is_not_refused() {
    let long = Duration::from_secs(100);
    let (results, sessions) = lost_before(Faults { full: 1000, ..Faults::NONE }, long);
    assert!(
        matches!(&results[..], [Ok(()), Ok(()), Err(AppendError::Disk { .. })]),
        "the disk is full: {results:?}"
    );
    assert_eq!(sessions, [[1, 2], [1, 2]]);
    let unreadable = Faults { uncached: 1000, open: 1000, ..Faults::NONE };
    let (results, sessions) = lost_before(unreadable, Duration::from_secs(5));
    assert!(results.iter().all(Result::is_ok), "the first batch can be read again: {results:?}");
    assert_eq!(sessions, [[1, 2, 3], [1, 2, 3]]);
    let (results, sessions) = lost_before(unreadable, long);
    let broken = |it: &Result<(), AppendError>| matches!(it, Err(AppendError::Broken { .. }));
    assert!(results[1..].iter().all(broken), "the first batch cannot be read: {results:?}");
    assert_eq!(sessions, [vec![1, 2], vec![]]);
}
