//! A statement: its text, the types of its parameters, and how it may be executed.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use postgres_types::{ToSql, Type};

use crate::error::Error;

/// Statements that may join a transaction with others begin with one of these words.
const BATCHABLE: [&str; 8] =
    ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE", "WITH"];

/// Statements that would change the transaction that the connection manages, or use the copy protocol.
const UNSUPPORTED: [&str; 9] =
    ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "COPY"];

/// An SQL statement that a connection prepares at its first use. Clones are the same statement.
///
/// The types of the parameters are declared, so that the caller's processor encodes the values without asking the
/// server, and the first use of a statement needs no round trip of its caller. The server converts: a parameter
/// declared as `INT8` may be inserted into an `INT4` column, and fails where the value does not fit.
///
/// A connection keeps its prepared statements. Create a statement once and keep it; do not create one per request.
///
/// ```
/// use phalanx_postgres::{Statement, Type};
///
/// let insert = Statement::new(
///     "INSERT INTO orders (customer, cents) VALUES ($1, $2) RETURNING id",
///     &[Type::TEXT, Type::INT8],
/// )
/// .batchable();
/// let find = Statement::new("SELECT cents FROM orders WHERE id = $1", &[Type::INT8])
///     .batchable()
///     .idempotent();
/// # let _ = (insert, find);
/// ```
#[derive(Clone)]
pub struct Statement(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    /// Its number in this process, from which its name on the server is made.
    id: u64,
    sql: Box<str>,
    types: Box<[Type]>,
    batchable: bool,
    idempotent: bool,
}

impl Statement {
    /// A statement whose parameters `$1`, `$2`, … have these types.
    pub fn new(sql: &str, types: &[Type]) -> Self {
        // Never used up: 64 bits.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (sql, types) = (sql.into(), types.into());
        Self(Arc::new(Inner { id, sql, types, batchable: false, idempotent: false }))
    }

    /// Lets executions of this statement share a transaction with other executions of their cohort. This is what makes
    /// a cohort cheap: one commit for all of them. Without it each execution is a transaction of its own.
    ///
    /// If an item of the transaction fails, the server rolls it back, and the other items are executed again in a new
    /// one. No item is answered before its transaction is committed, so callers notice none of this, on three
    /// conditions:
    ///
    /// - The statement has no effects that outlive a rollback, other than gaps in sequences.
    /// - It does not depend on a transaction of its own: it sees the changes of earlier items of its cohort, `now()`
    ///   is the same for all of them, and row locks are held until all of them are executed. So the transactions of two
    ///   connections can deadlock, which the server notices after its `deadlock_timeout`; then they are executed again.
    /// - It is a `SELECT`, `INSERT`, `UPDATE`, `DELETE`, `MERGE`, `VALUES`, `TABLE` or `WITH`. Others fail with
    ///   [`Error::Unsupported`].
    #[must_use]
    pub fn batchable(mut self) -> Self {
        Arc::make_mut(&mut self.0).batchable = true;
        self
    }

    /// Lets an execution be repeated if the connection is lost while its outcome is unknown. Without it, such an
    /// execution fails with [`Error::ConnectionLost`]. For statements whose second execution changes nothing: queries,
    /// and changes such as `INSERT … ON CONFLICT DO NOTHING`.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        Arc::make_mut(&mut self.0).idempotent = true;
        self
    }

    /// The SQL text.
    pub fn sql(&self) -> &str {
        &self.0.sql
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Its name on the server. Behind a pooler, the server may know statements of other processes.
    pub(crate) fn name(&self) -> String {
        static PROCESS: LazyLock<u32> =
            LazyLock::new(|| RandomState::new().hash_one(std::process::id()) as u32);
        format!("phalanx_{:08x}_{}", *PROCESS, self.0.id)
    }

    pub(crate) fn is_batchable(&self) -> bool {
        self.0.batchable
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.0.idempotent
    }

    /// The messages that bind these parameters and execute the statement.
    pub(crate) fn encode(&self, parameters: &[&(dyn ToSql + Sync)]) -> Result<BytesMut, Error> {
        self.check()?;
        let (expected, given) = (self.0.types.len(), parameters.len());
        if expected != given {
            return Err(Error::ParameterCount { expected, given });
        }
        let pairs = || parameters.iter().zip(&self.0.types);
        let formats = pairs().map(|(parameter, of)| parameter.encode_format(of) as i16);
        let mut index = 0;
        let serialize = |(parameter, of): (&&(dyn ToSql + Sync), &Type), buffer: &mut BytesMut| {
            index += 1;
            Ok(match parameter.to_sql_checked(of, buffer)? {
                postgres_types::IsNull::Yes => postgres_protocol::IsNull::Yes,
                postgres_types::IsNull::No => postgres_protocol::IsNull::No,
            })
        };
        let mut message = BytesMut::with_capacity(128);
        let bound =
            frontend::bind("", &self.name(), formats, pairs(), serialize, [1], &mut message);
        match bound {
            Err(frontend::BindError::Conversion(source)) => {
                return Err(Error::Parameter { index, source: source.into() });
            }
            Err(frontend::BindError::Serialization(error)) => return Err(Error::encoding(error)),
            Ok(()) => {}
        }
        frontend::execute("", 0, &mut message).map_err(Error::encoding)?;
        Ok(message)
    }

    /// Appends the messages that prepare the statement, in a transaction of their own. A statement of this name that
    /// the server knows already is replaced. After an error nothing was appended.
    pub(crate) fn prepare(&self, message: &mut BytesMut) -> Result<(), Error> {
        let before = message.len();
        let prepared = self.encode_preparation(message);
        if prepared.is_err() {
            message.truncate(before);
        }
        prepared.map_err(Error::encoding)
    }

    fn encode_preparation(&self, message: &mut BytesMut) -> io::Result<()> {
        let name = self.name();
        let types = self.0.types.iter().map(Type::oid);
        frontend::close(b'S', &name, message)?;
        frontend::parse(&name, &self.0.sql, types, message)?;
        frontend::describe(b'S', &name, message)?;
        frontend::sync(message);
        Ok(())
    }

    /// Its first word.
    pub(crate) fn word(&self) -> &str {
        first_word(&self.0.sql)
    }

    fn check(&self) -> Result<(), Error> {
        if self.0.sql.contains('\0') {
            let reason = "the text has a zero byte";
            return Err(Error::encoding(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let word = self.word();
        let is_one_of = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
        let reason = if is_one_of(&UNSUPPORTED) {
            "the connection manages its transactions itself, and copies nothing"
        } else if word.eq_ignore_ascii_case("PREPARE")
            && self.0.sql.to_ascii_uppercase().contains("TRANSACTION")
        {
            "the connection manages its transactions itself"
        } else if self.0.batchable && !is_one_of(&BATCHABLE) {
            "only queries and changes of rows are batchable; leave out `batchable()`"
        } else {
            return Ok(());
        };
        Err(Error::Unsupported { word: word.to_ascii_uppercase(), reason })
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Statement").field(&self.0.sql).finish()
    }
}

/// The first word of a statement, after blanks, brackets and comments.
fn first_word(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(' || c == ';');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once(['\n', '\r']).map_or("", |(_, rest)| rest);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = after_comment(comment);
        } else {
            break;
        }
    }
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end]
}

/// The text after the end of a block comment. Comments nest.
fn after_comment(comment: &str) -> &str {
    let (mut depth, mut rest) = (1, comment);
    while depth > 0 {
        let Some(at) = rest.find(['*', '/']) else { return "" };
        rest = &rest[at..];
        if let Some(inner) = rest.strip_prefix("/*") {
            (depth, rest) = (depth + 1, inner);
        } else if let Some(outer) = rest.strip_prefix("*/") {
            (depth, rest) = (depth - 1, outer);
        } else {
            rest = &rest[1..];
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_follows_blanks_and_comments() {
        for (sql, word) in [
            ("select 1", "select"),
            ("  /* a /* b */ c */ -- d\n INSERT INTO t", "INSERT"),
            ("((VALUES (1)))", "VALUES"),
            ("; begin", "begin"),
            ("-- nothing", ""),
            // A comment ends at either character of a line's end.
            ("-- a comment\rbegin -- another one\n commit", "begin"),
            ("/* open", ""),
            ("", ""),
            ("commit;", "commit"),
            ("é", ""),
        ] {
            assert_eq!(first_word(sql), word, "{sql}");
        }
    }

    #[test]
    fn statements_that_would_disturb_the_connection_are_refused() {
        for sql in [
            "BEGIN",
            "/* x */ commit",
            "savepoint a",
            "COPY t FROM STDIN",
            "prepare transaction 'x'",
        ] {
            let result = Statement::new(sql, &[]).encode(&[]);
            assert!(matches!(result, Err(Error::Unsupported { .. })), "{sql}");
        }
        let vacuum = Statement::new("VACUUM", &[]);
        assert!(vacuum.encode(&[]).is_ok());
        let result = vacuum.batchable().encode(&[]).unwrap_err().to_string();
        assert!(result.contains("VACUUM") && result.contains("batchable"), "{result}");
    }

    #[test]
    fn names_differ_between_processes() {
        let [one, other] = ["SELECT 1", "SELECT 2"].map(|sql| Statement::new(sql, &[]).name());
        let [(process, number), (same, next)] =
            [&one, &other].map(|name| name.rsplit_once('_').unwrap());
        assert!(process == same && number != next, "{one} {other}");
        assert_eq!(process.len(), "phalanx_".len() + 8, "a number of the process: {one}");
    }

    #[test]
    fn parameters_are_checked_before_they_are_sent() {
        let statement = Statement::new("SELECT $1 + $2", &[Type::INT8, Type::INT4]);
        assert!(statement.encode(&[&1_i64, &2_i32]).is_ok());
        let count = statement.encode(&[&1_i64]).unwrap_err();
        assert!(matches!(count, Error::ParameterCount { expected: 2, given: 1 }));
        let wrong = statement.encode(&[&1_i64, &"two"]).unwrap_err();
        assert!(matches!(wrong, Error::Parameter { index: 2, .. }), "{wrong}");
    }

    #[test]
    fn a_statement_that_cannot_be_encoded_leaves_no_part_of_a_message() {
        let (zero, many) = (Statement::new("SELECT '\0'", &[]), vec![Type::INT4; 70_000]);
        let result = zero.encode(&[]).unwrap_err();
        assert!(matches!(result, Error::Encoding(_)), "{result}");
        for statement in [zero, Statement::new("SELECT 1", &many)] {
            let mut message = BytesMut::from("before");
            assert!(statement.prepare(&mut message).is_err());
            assert_eq!(message, "before");
        }
    }
}
