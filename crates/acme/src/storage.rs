//! Accounts, certificates, orders and failures on disk. All files are readable by their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Failures in a row to get a certificate. Stored, so that they delay attempts even after a restart.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Failures {
    pub(crate) names: Vec<String>,
    pub(crate) count: u32,
    /// Attempts that the authority refused or did not complete.
    pub(crate) refused: usize,
    /// Times of the last and the next attempt, in seconds since 1970.
    pub(crate) last: u64,
    pub(crate) next: u64,
    /// The time before which the authority does not accept an attempt, in seconds since 1970; zero for none.
    #[serde(default)]
    pub(crate) asked: u64,
}

/// An order in progress, which a restart continues. The key is stored before the order is made, so an issued certificate
/// is never without its key.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct PendingOrder {
    pub(crate) names: Vec<String>,
    /// The private key of the certificate, in PEM.
    pub(crate) key: String,
    /// `None` before the authority has made the order.
    pub(crate) url: Option<String>,
}

/// The files of one authority.
#[derive(Clone, Debug)]
pub(crate) struct Storage(PathBuf);

impl Storage {
    /// The files for the authority with this directory, in a separate folder.
    pub(crate) fn new(storage: &Path, directory: &str) -> Self {
        let (_, name) = directory.split_once("://").unwrap_or(("", directory));
        let sanitize = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let name: String = name.chars().map(sanitize).collect();
        Self(storage.join(name.trim_matches(['-', '.'])))
    }

    /// The chain and the key of a certificate: one file, so that they change together. The order of the names does not
    /// matter. The certificates of a plan share no names.
    pub(crate) fn certificate(&self, names: &[String]) -> PathBuf {
        self.file(names, "pem")
    }

    fn file(&self, names: &[String], extension: &str) -> PathBuf {
        let names = name_set(names);
        let first = names.first().map_or("", String::as_str);
        self.0.join(format!("{first}.{extension}"))
    }

    fn account(&self) -> PathBuf {
        self.0.join("account.json")
    }

    /// Checks whether this process can use or create the folder. Changes nothing.
    pub(crate) fn check(&self) -> Result<(), String> {
        let existing = self.0.ancestors().find(|path| path.exists());
        let existing = existing.filter(|path| *path != Path::new("")).unwrap_or(Path::new("."));
        let metadata = fs::metadata(existing).map_err(|error| self.error("use", error))?;
        if !metadata.is_dir() {
            let reason = format!("{} is not a folder", existing.display());
            return Err(self.error("use", reason));
        }
        let check_access = |path: &Path, access| {
            let error = |error: rustix::io::Errno| {
                self.error("use", format!("{}: {}", path.display(), io::Error::from(error)))
            };
            accessat(CWD, path, access, AtFlags::EACCESS).map_err(error)
        };
        check_access(existing, Access::WRITE_OK | Access::EXEC_OK)?;
        if existing == self.0 {
            check_access(existing, Access::READ_OK)?;
            for file in fs::read_dir(existing).map_err(|error| self.error("read", error))?.flatten()
            {
                check_access(&file.path(), Access::READ_OK)?;
            }
        }
        Ok(())
    }

    /// Makes the folder, and locks it for this process until the file is dropped. `None` if another process has it.
    pub(crate) fn lock(&self) -> Result<Option<File>, String> {
        let error = |error: io::Error| self.error("use", error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(error)?;
        let options =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).clone();
        let file = options.open(self.0.join("lock")).map_err(error)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(reason)) => Err(error(reason)),
        }
    }

    fn error(&self, action: &str, reason: impl std::fmt::Display) -> String {
        format!("cannot {action} the folder of certificates, {}: {reason}", self.0.display())
    }

    /// The account; `None` if there is none yet.
    pub(crate) fn load_account<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        let path = self.account();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).map_err(|error| {
            format!("{} is damaged: {error}; remove it to make another account", path.display())
        })
    }

    pub(crate) fn save_account(&self, account: &impl Serialize) -> Result<(), String> {
        let text = serde_json::to_vec(account).map_err(|error| error.to_string())?;
        save::<String>(&self.account(), &text, |_| Ok(()))
    }

    /// Removes an account that the authority does not know.
    pub(crate) fn remove_account(&self) {
        let _ = fs::remove_file(self.account());
    }

    /// Stores a certificate with its key, both in PEM, if they are usable. This ends its order.
    pub(crate) fn save_certificate(&self, names: &[String], pem: &str) -> Result<(), SaveError> {
        save(&self.certificate(names), pem.as_bytes(), |new| {
            phalanx_tls::check(new, new).map_err(|error| SaveError::Unusable(error.to_string()))
        })?;
        self.remove_order(names);
        Ok(())
    }

    /// If there is no certificate for exactly these names, copies the stored one that covers most of them. So
    /// handshakes for unchanged names of a host succeed until a new certificate is issued.
    pub(crate) fn adopt(&self, names: &[String], now: SystemTime) {
        let certificate = self.certificate(names);
        let Ok(files) = fs::read_dir(&self.0) else { return };
        if certificate.exists() {
            return;
        }
        let is_for = |file: &Path, name: &String| {
            let validity = phalanx_tls::validity(file, file, std::slice::from_ref(name));
            validity.is_some_and(|validity| validity.is_for_all && now < validity.until)
        };
        let files = files.flatten().map(|file| file.path());
        let files = files.filter(|path| path.extension().is_some_and(|end| end == "pem"));
        let counted = files.map(|file| {
            let count = names.iter().filter(|name| is_for(&file, name)).count();
            (count, file)
        });
        if let Some((1.., best)) = counted.max()
            && let Ok(pem) = fs::read(&best)
        {
            let _ = save::<String>(&certificate, &pem, |_| Ok(()));
        }
    }

    /// The order in progress for these names. A damaged file is ignored.
    pub(crate) fn load_order(&self, names: &[String]) -> Option<PendingOrder> {
        let text = fs::read(self.file(names, "order")).ok()?;
        let order: PendingOrder = serde_json::from_slice(&text).ok()?;
        (order.names == names).then_some(order)
    }

    pub(crate) fn save_order(&self, order: &PendingOrder) -> Result<(), String> {
        let text = serde_json::to_vec(order).map_err(|error| error.to_string())?;
        save::<String>(&self.file(&order.names, "order"), &text, |_| Ok(()))
    }

    pub(crate) fn remove_order(&self, names: &[String]) {
        let _ = fs::remove_file(self.file(names, "order"));
    }

    /// The failures for these names. A damaged file is ignored.
    pub(crate) fn load_failures(&self, names: &[String]) -> Failures {
        let text = fs::read(self.file(names, "failures")).unwrap_or_default();
        let failures: Failures = serde_json::from_slice(&text).unwrap_or_default();
        if failures.names == names { failures } else { Failures::default() }
    }

    /// Replaces the failures for these names. Without the file, a restart makes an attempt immediately.
    pub(crate) fn save_failures(&self, names: &[String], failures: Option<&Failures>) {
        let path = self.file(names, "failures");
        let _ = match failures.map(serde_json::to_vec) {
            Some(Ok(text)) => save::<String>(&path, &text, |_| Ok(())),
            _ => fs::remove_file(&path).map_err(|error| error.to_string()),
        };
    }
}

/// The names of a certificate in lower case, sorted, each once.
pub(crate) fn name_set(names: &[String]) -> Vec<String> {
    let mut set: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    set.sort_unstable();
    set.dedup();
    set
}

/// Why a certificate is not stored.
#[derive(Debug)]
pub(crate) enum SaveError {
    /// It is unusable.
    Unusable(String),
    /// The disk may be full.
    Failed(String),
}

impl From<String> for SaveError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Replaces a file atomically, if `check` accepts the new one.
fn save<E: From<String>>(
    path: &Path,
    bytes: &[u8],
    check: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let new = path.with_extension("new");
    let error = |error: io::Error| E::from(format!("cannot write {}: {error}", path.display()));
    // Removed first, because the mode applies only to a new file.
    let _ = fs::remove_file(&new);
    let mut file =
        OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new).map_err(error)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).map_err(error);
    let replaced = written.and_then(|()| check(&new));
    let replaced = replaced.and_then(|()| fs::rename(&new, path).map_err(error));
    if replaced.is_err() {
        // The partial file would occupy space on a disk that may be full.
        let _ = fs::remove_file(&new);
    }
    replaced?;
    // The rename is durable once the folder is synced.
    let folder = path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all());
    folder.map_err(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names() -> Vec<String> {
        vec!["A.test".to_owned()]
    }

    #[test]
    fn files_have_one_owner_and_one_process() {
        let home = tempfile::tempdir().unwrap();
        let storage = Storage::new(&home.path().join("new"), "https://ca.test:14000/dir");
        let folder = home.path().join("new/ca.test-14000-dir");
        assert_eq!(storage.check(), Ok(()));
        assert!(!folder.exists(), "a check makes nothing");
        let lock = storage.lock().unwrap().expect("free");
        assert!(storage.lock().unwrap().is_none(), "locked");
        drop(lock);
        assert!(storage.lock().unwrap().is_some());
        storage.save_account(&"secret").unwrap();
        storage.save_account(&"secret 2").unwrap();
        assert_eq!(storage.load_account::<String>(), Ok(Some("secret 2".to_owned())));
        for (path, mode) in [(folder.clone(), 0o700), (folder.join("account.json"), 0o600)] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
        }
        storage.remove_account();
        assert_eq!(storage.load_account::<String>(), Ok(None));
        fs::write(folder.join("account.json"), "{").unwrap();
        assert!(storage.load_account::<String>().unwrap_err().contains("is damaged"));
    }

    #[test]
    fn an_unusable_certificate_replaces_nothing() {
        let home = tempfile::tempdir().unwrap();
        let storage = Storage::new(home.path(), "https://ca.test");
        drop(storage.lock().unwrap());
        let pair = rcgen::generate_simple_self_signed(names()).unwrap();
        let valid = pair.cert.pem() + &pair.signing_key.serialize_pem();
        storage.save_certificate(&names(), &valid).unwrap();
        let unsaved = storage.save_certificate(&names(), &pair.cert.pem()).unwrap_err();
        assert!(
            matches!(&unsaved, SaveError::Unusable(reason) if reason.contains("no private key")),
            "{unsaved:?}"
        );
        let path = home.path().join("ca.test/a.test.pem");
        assert_eq!(
            (storage.certificate(&names()), fs::read_to_string(&path).unwrap()),
            (path, valid)
        );
    }

    #[test]
    fn a_certificate_is_found_by_its_set_of_names() {
        let home = tempfile::tempdir().unwrap();
        let storage = Storage::new(home.path(), "https://ca.test");
        drop(storage.lock().unwrap());
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let issue = |names: &str| {
            let pair = rcgen::generate_simple_self_signed(list(names)).unwrap();
            let pem = pair.cert.pem() + &pair.signing_key.serialize_pem();
            storage.save_certificate(&list(names), &pem).unwrap();
            pem
        };
        let read = |names: &str| fs::read_to_string(storage.certificate(&list(names))).ok();
        let (one, other) = (issue("b.test www.b.test c.test"), issue("x.test"));
        assert_eq!(read("C.test www.b.test b.test"), Some(one.clone()), "the order has no effect");
        // (new names, the certificate that is valid for most of them)
        for (names, expected) in [
            ("a.test www.b.test", Some(&one)),
            ("a2.test x.test", Some(&other)),
            ("c.test www.b.test x.test", Some(&one)),
            ("y.test", None),
        ] {
            storage.adopt(&list(names), SystemTime::now());
            assert_eq!(read(names).as_ref(), expected, "{names}");
        }
        let far_future = SystemTime::now() + std::time::Duration::from_secs(1 << 40);
        storage.adopt(&list("a3.test x.test"), far_future);
        assert_eq!(read("a3.test x.test"), None, "it has expired");
        storage.adopt(&list("b.test x.test"), SystemTime::now());
        assert_eq!(read("b.test"), Some(one), "an own certificate stays");
    }

    #[test]
    fn orders_are_stored_until_their_certificate_is() {
        let home = tempfile::tempdir().unwrap();
        let storage = Storage::new(home.path(), "https://ca.test");
        drop(storage.lock().unwrap());
        let names = name_set(&names());
        let pair = rcgen::generate_simple_self_signed(names.clone()).unwrap();
        let key = pair.signing_key.serialize_pem();
        let order = PendingOrder { names: names.clone(), key: key.clone(), url: None };
        storage.save_order(&order).unwrap();
        assert_eq!(storage.load_order(&names), Some(order.clone()));
        let other_names = [names.clone(), vec!["b.test".to_owned()]].concat();
        assert_eq!(storage.load_order(&other_names), None, "it is for other names");
        // Something is in the way of the certificate.
        fs::create_dir(storage.certificate(&names)).unwrap();
        let pem = pair.cert.pem() + &key;
        let unsaved = storage.save_certificate(&names, &pem).unwrap_err();
        assert!(matches!(unsaved, SaveError::Failed(_)), "{unsaved:?}");
        assert_eq!(storage.load_order(&names), Some(order));
        fs::remove_dir(storage.certificate(&names)).unwrap();
        storage.save_certificate(&names, &pem).unwrap();
        assert_eq!(storage.load_order(&names), None);
    }

    #[test]
    fn failures_count_for_the_same_names() {
        let home = tempfile::tempdir().unwrap();
        let storage = Storage::new(home.path(), "https://ca.test");
        drop(storage.lock().unwrap());
        let failures =
            Failures { names: names(), count: 3, refused: 1, last: 2, next: 17, asked: 16 };
        storage.save_failures(&names(), Some(&failures));
        assert_eq!(storage.load_failures(&names()), failures);
        let other_names = [names(), vec!["b.test".to_owned()]].concat();
        assert_eq!(storage.load_failures(&other_names), Failures::default());
        storage.save_failures(&names(), None);
        assert_eq!(storage.load_failures(&names()), Failures::default());
    }
}
