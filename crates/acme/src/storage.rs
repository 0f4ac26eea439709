//! Accounts, certificates and failures on disk. All files are readable by their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Failures in a row to get a certificate, which limit the attempts also after a restart.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Failures {
    pub(crate) names: Vec<String>,
    pub(crate) count: u32,
    /// Time of the next attempt, in seconds since 1970.
    pub(crate) next: u64,
}

/// The files of one authority.
#[derive(Clone, Debug)]
pub(crate) struct Storage(PathBuf);

impl Storage {
    /// The files for the authority with this directory, in a folder of their own.
    pub(crate) fn new(storage: &Path, directory: &str) -> Self {
        let (_, name) = directory.split_once("://").unwrap_or(("", directory));
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let name: String = name.chars().map(plain).collect();
        Self(storage.join(name.trim_matches(['-', '.'])))
    }

    /// The chain and the key of a certificate: one file, so that they change together.
    pub(crate) fn certificate(&self, names: &[String]) -> PathBuf {
        let first = names.first().map_or("", String::as_str).to_ascii_lowercase();
        self.0.join(format!("{first}.pem"))
    }

    fn failures(&self, names: &[String]) -> PathBuf {
        self.certificate(names).with_extension("failures")
    }

    fn account(&self) -> PathBuf {
        self.0.join("account.json")
    }

    /// Whether the folder can be used or made. Changes nothing.
    pub(crate) fn check(&self) -> Result<(), String> {
        let existing = self.0.ancestors().find(|path| path.exists());
        let existing = existing.unwrap_or_else(|| Path::new("."));
        let existing = if existing == Path::new("") { Path::new(".") } else { existing };
        match fs::metadata(existing) {
            Ok(metadata) if metadata.is_dir() && !metadata.permissions().readonly() => Ok(()),
            Ok(_) => Err(self.error("use", "it is no folder, or not writable")),
            Err(error) => Err(self.error("use", error)),
        }
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
            Err(fs::TryLockError::Error(why)) => Err(error(why)),
        }
    }

    fn error(&self, what: &str, why: impl std::fmt::Display) -> String {
        format!("cannot {what} the folder of certificates, {}: {why}", self.0.display())
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
        save(&self.account(), &text, |_| Ok(()))
    }

    /// Removes an account that the authority does not know.
    pub(crate) fn remove_account(&self) {
        let _ = fs::remove_file(self.account());
    }

    /// Stores a certificate with its key, both in PEM, if they are usable.
    pub(crate) fn save_certificate(&self, names: &[String], pem: &str) -> Result<(), String> {
        save(&self.certificate(names), pem.as_bytes(), |new| {
            phalanx_tls::check(new, new).map_err(|error| error.to_string())
        })
    }

    /// The failures for these names. A damaged file counts as none.
    pub(crate) fn load_failures(&self, names: &[String]) -> Failures {
        let text = fs::read(self.failures(names)).unwrap_or_default();
        let found: Option<Failures> = serde_json::from_slice(&text).ok();
        found.filter(|found| found.names == names).unwrap_or_default()
    }

    /// Stores failures, best effort: without them, a restart tries at once.
    pub(crate) fn save_failures(&self, names: &[String], failures: Option<&Failures>) {
        let path = self.failures(names);
        let _ = match failures.map(serde_json::to_vec) {
            Some(Ok(text)) => save(&path, &text, |_| Ok(())),
            _ => fs::remove_file(&path).map_err(|error| error.to_string()),
        };
    }
}

/// Replaces a file at once, if `check` accepts the new one.
fn save(
    path: &Path,
    bytes: &[u8],
    check: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let new = path.with_extension("new");
    let error = |error: io::Error| format!("cannot write {}: {error}", path.display());
    // Its mode counts only for a new file.
    let _ = fs::remove_file(&new);
    let mut file =
        OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new).map_err(error)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(error)?;
    check(&new)?;
    fs::rename(&new, path).map_err(error)?;
    // The new name is on disk when the folder is.
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
        let good = pair.cert.pem() + &pair.signing_key.serialize_pem();
        storage.save_certificate(&names(), &good).unwrap();
        let error = storage.save_certificate(&names(), &pair.cert.pem()).unwrap_err();
        assert!(error.contains("no private key"), "{error}");
        let path = home.path().join("ca.test/a.test.pem");
        assert_eq!(
            (storage.certificate(&names()), fs::read_to_string(&path).unwrap()),
            (path, good)
        );
    }

    #[test]
    fn failures_count_for_the_same_names() {
        let home = tempfile::tempdir().unwrap();
        let storage = Storage::new(home.path(), "https://ca.test");
        drop(storage.lock().unwrap());
        let failures = Failures { names: names(), count: 3, next: 17 };
        storage.save_failures(&names(), Some(&failures));
        assert_eq!(storage.load_failures(&names()), failures);
        let more = [names(), vec!["b.test".to_owned()]].concat();
        assert_eq!(storage.load_failures(&more), Failures::default());
        storage.save_failures(&names(), None);
        assert_eq!(storage.load_failures(&names()), Failures::default());
    }
}
