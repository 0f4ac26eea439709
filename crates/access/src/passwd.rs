//! Sets passwords in a password file.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use argon2::Argon2;
use argon2::password_hash::PasswordHasher;

use crate::error::{FileError, LineError};
use crate::scram::decoys::DecoySecret;
use crate::scram::keys::{Keys, Mechanism};
use crate::users::check_name;

/// How long a process waits for another one that changes the same file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// How a password is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// A hash that takes 19 MiB of memory to compute.
    #[default]
    Argon2id,
    /// Keys of SCRAM, with which clients can log in without sending the password.
    Scram {
        /// The only mechanism that these clients can use.
        mechanism: Mechanism,
        /// Iterations that a client computes at each login: 4,096 to 1,000,000.
        iterations: u32,
    },
}

impl Scheme {
    /// The text after the name of a user.
    fn hash_of(self, name: &str, password: &[u8]) -> Result<String, LineError> {
        check_name(name).map_err(file_error)?;
        if password.is_empty() {
            return Err(file_error(format!("the password of {name:?} is empty")));
        }
        let hash = self.hash(password);
        hash.map_err(|error| file_error(format!("the password cannot be hashed: {error}")))
    }

    fn hash(self, password: &[u8]) -> Result<String, String> {
        match self {
            Self::Argon2id => {
                let hash = Argon2::default().hash_password(password);
                hash.map(|hash| hash.to_string()).map_err(|error| error.to_string())
            }
            Self::Scram { mechanism, iterations } => {
                Keys::new(mechanism, iterations, password).map(|keys| keys.print())
            }
        }
    }
}

/// Returns the text of a password file with this user's password replaced, or appended. All other lines are unchanged,
/// except that with the first SCRAM keys a line with the secret for decoy salts is added at the top. Takes tens of
/// milliseconds.
///
/// # Errors
/// If the user name is invalid or the password is empty.
pub fn set(text: &str, name: &str, password: &[u8]) -> Result<String, LineError> {
    set_as(text, name, password, Scheme::default())
}

/// Like [`set`], for a password that is stored in this way.
///
/// # Errors
/// Like [`set`], and if the number of iterations is out of bounds.
pub fn set_as(
    text: &str,
    name: &str,
    password: &[u8],
    scheme: Scheme,
) -> Result<String, LineError> {
    with_hash(text, name, &scheme.hash_of(name, password)?, scheme)
}

fn file_error(message: String) -> LineError {
    LineError { line: 0, column: 0, message }
}

/// The text with this hash for the user.
fn with_hash(text: &str, name: &str, hash: &str, scheme: Scheme) -> Result<String, LineError> {
    let new = format!("{name}:{hash}");
    let mut is_replaced = false;
    let mut lines: Vec<&str> = Vec::new();
    let has_secret = text.lines().any(|line| DecoySecret::read(line).is_some());
    let secret = match scheme {
        Scheme::Scram { .. } if !has_secret => Some(DecoySecret::new_line().map_err(file_error)?),
        _ => None,
    };
    lines.extend(secret.as_deref());
    for line in text.lines() {
        match line.split_once(':') {
            Some((user, _)) if user == name && is_replaced => (),
            Some((user, _)) if user == name => {
                is_replaced = true;
                lines.push(&new);
            }
            _ => lines.push(line),
        }
    }
    if !is_replaced {
        lines.push(&new);
    }
    Ok(lines.join("\n") + "\n")
}

/// Sets a password in a file. A missing file is created with access for its owner only. An existing file keeps its
/// owner, group and permissions, so that a broker can still read it. The file, or the target of a symbolic link, is
/// replaced atomically. Several processes may set passwords in one file: each waits up to ten seconds for the others.
/// May block.
///
/// # Errors
/// [`FileError`] if the file cannot be read or written.
pub fn set_in_file(
    path: &Path,
    name: &str,
    password: &[u8],
    scheme: Scheme,
) -> Result<(), FileError> {
    let path = &target(path).map_err(FileError::io("read", path))?;
    // This takes long, so it is done before the new file is created, whose removal other processes await.
    let hash = scheme.hash_of(name, password).map_err(|error| invalid(path, error))?;
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    // From here on, no other process changes the file.
    let file = create_alone(new).map_err(FileError::io("write", new))?;
    let replaced = change(path, name, &hash, scheme).and_then(|text| {
        let replaced = write(file, path, &text).and_then(|()| fs::rename(new, path));
        replaced.map_err(FileError::io("write", new))
    });
    if replaced.is_err() {
        let _ = fs::remove_file(new);
    }
    replaced
}

/// The file at `path`, or the target of a symbolic link, even if it does not exist yet.
fn target(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(to) => Ok(path.parent().unwrap_or(Path::new("")).join(to)),
            Err(_) => Ok(path.to_owned()),
        },
        found => found,
    }
}

fn invalid(path: &Path, error: LineError) -> FileError {
    FileError::Invalid { path: path.into(), errors: vec![error] }
}

/// Creates the new version of a file. Waits until another process has finished replacing the file.
fn create_alone(new: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let start = Instant::now();
    loop {
        match options.open(new) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(error) if start.elapsed() > LOCK_TIMEOUT => {
                let message = "it exists: another process changes the file, or was interrupted; in that case remove it";
                return Err(io::Error::new(error.kind(), message));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
            file => return file,
        }
    }
}

/// The new text of a file.
fn change(path: &Path, name: &str, hash: &str, scheme: Scheme) -> Result<String, FileError> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text.map_err(FileError::io("read", path))?,
    };
    with_hash(&text, name, hash, scheme).map_err(|error| invalid(path, error))
}

/// Writes the new version of the file `path`.
fn write(mut file: File, path: &Path, text: &str) -> io::Result<()> {
    if let Ok(old) = fs::metadata(path) {
        keep_owner(&file, &old)?;
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Gives a file the owner and group of an existing one.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let new = file.metadata()?;
    if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
        return Ok(());
    }
    fchown(file, Some(old.uid()), Some(old.gid())).map_err(|error| {
        io::Error::new(error.kind(), format!("its owner and group cannot be kept: {error}"))
    })
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Users;

    #[test]
    fn no_password_is_lost_if_many_are_set_at_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("users");
        thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                let set = move || set_in_file(path, &format!("u{n}"), b"apple", Scheme::default());
                scope.spawn(move || set().unwrap());
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        let mut names: Vec<_> = text.lines().map(|line| line.split(':').next().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7"]);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn the_target_of_a_link_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (path, link) = (home.path().join("users"), home.path().join("link"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        set_in_file(&link, "adam", b"rib", Scheme::default()).unwrap();
        set_in_file(&link, "eve", b"apple", Scheme::default()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("adam:") && text.contains("eve:"), "{text}");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_password_replaces_the_line_of_its_user() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("users");
        set_in_file(&path, "eve", b"apple", Scheme::default()).unwrap();
        set_in_file(&path, "adam", b"rib", Scheme::default()).unwrap();
        let text = format!("# people\n{}", fs::read_to_string(&path).unwrap());
        fs::write(&path, text).unwrap();
        set_in_file(&path, "eve", b"pear", Scheme::default()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let names: Vec<_> = text.lines().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(names, ["# people", "eve", "adam"]);
        let users = Users::open(&path).unwrap();
        assert!(users.verify("eve", b"pear") && !users.verify("eve", b"apple"));
        assert!(users.verify("adam", b"rib"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // The permissions are kept. Changing the owner requires root.
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let is_permitted = chown(&path, Some(4242), Some(4243)).is_ok();
            set_in_file(&path, "eve", b"pear", Scheme::default()).unwrap();
            let new = fs::metadata(&path).unwrap();
            assert_eq!(new.mode() & 0o777, 0o640);
            assert!(!is_permitted || (new.uid(), new.gid()) == (4242, 4243));
        }
        assert!(set("", "a:b", b"x").is_err() && set("", "a", b"").is_err());
        // A temporary file of another process is not touched.
        fs::write(home.path().join("users.new"), "mine").unwrap();
        let error = set_in_file(&path, "eve", b"plum", Scheme::default()).unwrap_err();
        assert!(error.to_string().contains("users.new"), "{error}");
        assert_eq!(fs::read_to_string(home.path().join("users.new")).unwrap(), "mine");
    }

    #[test]
    fn the_first_keys_bring_a_secret() {
        let scram = Scheme::Scram { mechanism: Mechanism::Sha256, iterations: 4096 };
        let first = set_as("# people\n", "eve", b"apple", scram).unwrap();
        let secret = first.lines().next().unwrap();
        assert!(DecoySecret::read(secret).is_some(), "{first}");
        let second = set_as(&first, "adam", b"rib", scram).unwrap();
        let secrets = second.lines().filter(|line| DecoySecret::read(line).is_some());
        assert_eq!(secrets.collect::<Vec<_>>(), [secret]);
        let decoy =
            |text: &str| Users::parse(text).unwrap().scram(Mechanism::Sha256, "abel").unwrap().0;
        let changed = set_as(&second, "eve", b"pear", scram).unwrap();
        assert_eq!(decoy(&changed), decoy(&first), "the first user's password determines no decoy");
        let error = Users::parse(&first.replace(secret, "#scram-decoys=x")).unwrap_err();
        assert_eq!((error.len(), error[0].line), (1, 1));
        assert!(!set("", "eve", b"apple").unwrap().starts_with('#'));
    }
}
