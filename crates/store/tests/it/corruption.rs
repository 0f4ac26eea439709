//! Corruption in the middle of a journal is reported with file and offset, and nothing is recovered by guesswork. An
//! incomplete end, as a crash leaves it, is dropped, and everything before it is recovered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use phalanx::Graph;
use phalanx_store::{Entry, OpenError, Options, Record, Recovered, SessionId, Store, recover};

type Files = BTreeMap<String, Vec<u8>>;

const SESSIONS: u64 = 60;
/// A batch's frame with the record of one session.
const MAX_BATCH_BYTES: usize = 16 + 2 + 9 + 3;
/// The header of a segment.
const HEAD_BYTES: usize = 84;

/// A journal of several segments, with one session in each batch, but without its position file, as a power cut may
/// leave it.
fn journal() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files = with_position().clone();
        files.remove("position");
        files
    })
}

/// The whole directory, as a killed process leaves it.
fn with_position() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 600, ..Options::default() };
        let (store, _) = Store::open(home.path(), options).unwrap();
        let mut graph = Graph::new();
        let journal = store.declare(&mut graph);
        crate::common::run(graph, 1, move || {
            let journal = journal.clone();
            async move {
                for number in 1..=SESSIONS {
                    let mut entry = Entry::new();
                    let (session, client) = (SessionId(number), "somebody");
                    let (expiry, left, will) = (1, 0, &[][..]);
                    entry.push(&Record::Session { session, client, expiry, left, will });
                    journal.append(entry).await.unwrap();
                }
            }
        });
        let files = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap());
        let files = files.map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        });
        files.filter(|(name, _)| name != "lock").collect()
    })
}

fn recover_files(files: &Files) -> Result<Recovered, OpenError> {
    recover(files, Path::new("/data"))
}

/// The file name and offset of an error.
fn place(error: &OpenError) -> (String, u64) {
    let OpenError::Corrupt { file, offset, .. } = error else { panic!("{error}") };
    (file.file_name().unwrap().to_str().unwrap().to_owned(), *offset)
}

#[test]
fn an_intact_journal_is_recovered() {
    let recovered = recover_files(journal()).unwrap();
    assert_eq!(recovered.sessions.len() as u64, SESSIONS);
    assert_eq!(recovered.torn, None);
    assert!(journal().len() > 3, "{} segments", journal().len());
    assert_eq!(recover_files(&Files::new()).unwrap().next_session, SessionId(1));
}

#[test]
fn every_changed_byte_is_reported() {
    let last = journal().keys().next_back().unwrap();
    let end = journal()[last].len();
    // The last batch may be incomplete after a crash, which the store cannot tell from corruption. All
    // batches have the same length.
    for (name, bytes) in journal() {
        for at in 0..bytes.len() {
            let mut files = journal().clone();
            files.get_mut(name).unwrap()[at] ^= 0x40;
            match recover_files(&files) {
                Err(error) => {
                    let (file, offset) = place(&error);
                    assert!(file == *name && offset <= at as u64, "{name} {at}: {error}");
                    assert!(error.to_string().contains("from a backup"), "{error}");
                }
                Ok(recovered) => {
                    assert!(
                        name == last && at >= end - MAX_BATCH_BYTES,
                        "byte {at} of {name} goes unseen"
                    );
                    let torn = recovered.torn.unwrap();
                    assert_eq!(
                        (torn.offset, torn.bytes),
                        ((end - MAX_BATCH_BYTES) as u64, MAX_BATCH_BYTES as u64)
                    );
                    assert_eq!(recovered.sessions.len() as u64, SESSIONS - 1);
                }
            }
        }
    }
}

#[test]
fn the_rest_is_recovered_wherever_the_end_is_torn() {
    let last = journal().keys().next_back().unwrap();
    let bytes = &journal()[last];
    // Each batch has one session; the other segments are always recovered.
    let others = SESSIONS as usize - (bytes.len() - HEAD_BYTES) / MAX_BATCH_BYTES;
    for end in (0..bytes.len()).rev() {
        for junk in [&[][..], &[0; 40], &[0xa5; 7]] {
            // Nothing after a missing header counts.
            let cut = if end < HEAD_BYTES {
                bytes[..end].to_vec()
            } else {
                [&bytes[..end], junk].concat()
            };
            let mut files = journal().clone();
            files.insert(last.clone(), cut);
            let recovered =
                recover_files(&files).unwrap_or_else(|error| panic!("cut at {end}: {error}"));
            let there = recovered.sessions.len();
            let whole = others + end.saturating_sub(HEAD_BYTES) / MAX_BATCH_BYTES;
            // The truncated bytes may have been zeros.
            assert!(
                there == whole || junk == [0; 40] && there == whole + 1,
                "cut at {end}: {there}"
            );
            let sessions = recovered.sessions.keys().map(|session| session.0);
            assert!(sessions.eq(1..=there as u64), "cut at {end}: not a prefix");
        }
    }
}

#[test]
fn missing_and_unknown_files_are_reported() {
    let names: Vec<_> = journal().keys().cloned().collect();
    for name in &names[..names.len() - 1] {
        let mut files = journal().clone();
        files.remove(name);
        let error = recover_files(&files).unwrap_err();
        assert_eq!(place(&error), (name.clone(), 0), "{error}");
        let mut files = journal().clone();
        let cut = files[name].len() - 1;
        files.get_mut(name).unwrap().truncate(cut);
        let error = recover_files(&files).unwrap_err();
        assert_eq!(place(&error), (name.clone(), cut as u64), "{error}");
        // Bytes after the end that the next header names are ignored.
        let mut files = journal().clone();
        files.get_mut(name).unwrap().extend([7; 100]);
        assert_eq!(recover_files(&files).unwrap(), recover_files(journal()).unwrap());
    }
    // A segment under the name of another.
    let mut files = journal().clone();
    let other = files[&names[0]].clone();
    files.insert(names[1].clone(), other);
    assert_eq!(place(&recover_files(&files).unwrap_err()), (names[1].clone(), 0));
    // Files that are not the store's are ignored.
    let mut files = journal().clone();
    files.insert("notes.txt".into(), b"mine".to_vec());
    assert_eq!(recover_files(&files).unwrap(), recover_files(journal()).unwrap());
}

/// With the newest position file, the store knows which writes were acknowledged: a truncated end is an error
/// then.
#[test]
fn a_lost_acknowledged_end_is_reported() {
    let lost = |files: &Files| match recover_files(files) {
        Err(OpenError::Lost(lost)) => lost,
        other => panic!("{other:?}"),
    };
    let whole = with_position();
    assert_eq!(recover_files(whole).unwrap(), recover_files(journal()).unwrap());
    let last = journal().keys().next_back().unwrap();
    let bytes = &whole[last];
    for end in 0..bytes.len() {
        let mut files = whole.clone();
        files.insert(last.clone(), bytes[..end].to_vec());
        let lost = lost(&files);
        let left = end.saturating_sub(HEAD_BYTES) / MAX_BATCH_BYTES;
        let missing = (bytes.len() - HEAD_BYTES) / MAX_BATCH_BYTES - left;
        assert_eq!(lost.missing, Some(missing as u64), "cut at {end}: {lost}");
        assert_eq!((lost.file.to_str().unwrap(), lost.bytes), (&**last, bytes.len() as u64));
    }
    let mut files = whole.clone();
    files.remove(last);
    assert!(lost(&files).to_string().contains("missing at the end"));
    let mut files = whole.clone();
    files.get_mut(last).unwrap()[bytes.len() - 1] ^= 1;
    assert_eq!(lost(&files).missing, Some(1), "the last batch has changed");
    // The segment is missing or empty.
    let position = |(name, _): &(String, Vec<u8>)| name == "position";
    let files: Files = whole.clone().into_iter().filter(position).collect();
    let message = lost(&files).to_string();
    assert!(message.contains("the journal is missing, with 60 acknowledged batches"), "{message}");
    let emptied = whole.clone().into_iter();
    let emptied = emptied.map(|file| if position(&file) { file } else { (file.0, Vec::new()) });
    assert_eq!(lost(&emptied.collect()).missing, Some(SESSIONS));
    // Bytes that a crash leaves after the end are no loss, and a torn position file is ignored.
    let mut files = whole.clone();
    files.get_mut(last).unwrap().extend([7; 5]);
    let torn = recover_files(&files).unwrap().torn.unwrap();
    assert_eq!((torn.bytes, torn.unacknowledged), (5, true));
    let mut files = whole.clone();
    files.remove(last);
    files.get_mut("position").unwrap()[20] ^= 1;
    assert!(recover_files(&files).is_ok());
    // Without a position, the bytes at the end may be the rest of an acknowledged batch.
    let mut files = whole.clone();
    files.remove("position");
    files.get_mut(last).unwrap().pop();
    let torn = recover_files(&files).unwrap().torn.unwrap();
    assert!(!torn.unacknowledged && !torn.to_string().contains("never"), "{torn}");
}

#[test]
fn a_loss_is_accepted_on_request() {
    let home = tempfile::tempdir().unwrap();
    for (name, bytes) in with_position() {
        std::fs::write(home.path().join(name), bytes).unwrap();
    }
    let last = home.path().join(journal().keys().next_back().unwrap());
    std::fs::remove_file(&last).unwrap();
    let error = Store::open(home.path(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("--accept-loss"), "{error}");
    let accepting = Options { accept_loss: true, ..Options::default() };
    let (_, mut recovered) = Store::open(home.path(), accepting).unwrap();
    assert!(!recovered.sessions.is_empty());
    let lost = recovered.lost.take().expect("the loss is reported").to_string();
    assert!(lost.contains("acknowledged batches are missing"), "{lost}");
    assert!(lost.ends_with("The loss was accepted with --accept-loss"), "{lost}");
    // Accepting the loss once is enough.
    assert_eq!(Store::open(home.path(), Options::default()).unwrap().1, recovered);
}
