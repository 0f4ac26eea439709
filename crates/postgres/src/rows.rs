//! The result of a statement: rows as the server sent them, decoded when they are read.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use postgres_types::{FromSql, Type, WrongType};
use thiserror::Error;

use crate::row_bytes::{Fields, Messages};

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub(crate) name: String,
    pub(crate) of: Type,
}

impl Column {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type. A type that is not one of PostgreSQL's own is named by its number only.
    pub fn type_(&self) -> &Type {
        &self.of
    }
}

/// The result of a statement.
///
/// ```no_run
/// use phalanx_postgres::{Database, Error, Statement};
///
/// async fn total(database: &Database, orders: &Statement) -> Result<i64, Error> {
///     let rows = database.query(orders, &[&"anna"]).await?;
///     Ok(rows.iter().map(|row| row.get::<i64>("cents")).sum())
/// }
/// ```
#[derive(Clone)]
pub struct Rows {
    columns: Arc<[Column]>,
    messages: Vec<u8>,
    len: usize,
    affected: u64,
}

impl Rows {
    /// `messages` are `len` complete messages of rows.
    pub(crate) fn new(
        columns: Arc<[Column]>,
        messages: Vec<u8>,
        len: usize,
        affected: u64,
    ) -> Self {
        Self { columns, messages, len, affected }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the statement has returned no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of rows that the statement has inserted, changed, deleted or returned, as the server reports it.
    pub fn rows_affected(&self) -> u64 {
        self.affected
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The first row.
    pub fn first(&self) -> Option<Row<'_>> {
        self.iter().next()
    }

    /// The rows, in the order of the server.
    pub fn iter(&self) -> Iter<'_> {
        Iter { columns: &self.columns, messages: Messages(&self.messages) }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { columns, len, affected, .. } = self;
        f.debug_struct("Rows")
            .field("len", len)
            .field("affected", affected)
            .field("columns", columns)
            .finish_non_exhaustive()
    }
}

impl<'r> IntoIterator for &'r Rows {
    type Item = Row<'r>;
    type IntoIter = Iter<'r>;

    fn into_iter(self) -> Iter<'r> {
        self.iter()
    }
}

/// Iterator over the rows of [`Rows`].
#[derive(Clone, Debug)]
pub struct Iter<'r> {
    columns: &'r [Column],
    messages: Messages<'r>,
}

impl<'r> Iterator for Iter<'r> {
    type Item = Row<'r>;

    fn next(&mut self) -> Option<Row<'r>> {
        Some(Row { columns: self.columns, body: self.messages.next()? })
    }
}

/// One row of [`Rows`].
#[derive(Clone, Copy, Debug)]
pub struct Row<'r> {
    columns: &'r [Column],
    body: &'r [u8],
}

/// A value that cannot be read from a row.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// The row has no such column.
    #[error("the row has no column {column}; its columns are {columns}")]
    Missing {
        /// The name or number.
        column: String,
        /// The names of all columns.
        columns: String,
    },
    /// The column's type differs from the requested one, or the value is NULL or invalid.
    #[error("column {column}: {source}")]
    Value {
        /// The name or number.
        column: String,
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl<'r> Row<'r> {
    /// The value of a column, by number from 0 or by name.
    ///
    /// # Panics
    /// If there is no such column, or if its value is not a `T`. NULL is an `Option` only.
    /// [`try_get`](Self::try_get) returns an error instead.
    #[track_caller]
    pub fn get<T: FromSql<'r>>(&self, column: impl ColumnIndex) -> T {
        match self.try_get(column) {
            Ok(value) => value,
            Err(error) => panic!("{error}"),
        }
    }

    /// The value of a column, by number from 0 or by name.
    ///
    /// # Errors
    /// [`ColumnError`] if there is no such column, or if its value is not a `T`.
    pub fn try_get<T: FromSql<'r>>(&self, column: impl ColumnIndex) -> Result<T, ColumnError> {
        let Some(index) = column.index(self.columns) else {
            let names: Vec<_> = self.columns.iter().map(|column| &*column.name).collect();
            return Err(ColumnError::Missing {
                column: column.to_string(),
                columns: names.join(", "),
            });
        };
        let of = &self.columns[index].of;
        let wrong = |source| ColumnError::Value { column: column.to_string(), source };
        if !T::accepts(of) {
            return Err(wrong(Box::new(WrongType::new::<T>(of.clone()))));
        }
        let field = Fields::new(self.body).nth(index).flatten();
        T::from_sql_nullable(of, field).map_err(wrong)
    }

    /// The columns.
    pub fn columns(&self) -> &'r [Column] {
        self.columns
    }
}

/// A column's number, from 0, or its name.
pub trait ColumnIndex: fmt::Display + sealed::Sealed {
    #[doc(hidden)]
    fn index(&self, columns: &[Column]) -> Option<usize>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &str {}
}

impl ColumnIndex for usize {
    fn index(&self, columns: &[Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl ColumnIndex for &str {
    fn index(&self, columns: &[Column]) -> Option<usize> {
        columns.iter().position(|column| column.name == *self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        let column = |name: &str, of: Type| Column { name: name.to_owned(), of };
        let columns = [column("id", Type::INT4), column("name", Type::TEXT)].into();
        let row = |id: i32, name: Option<&str>| {
            let mut body = 2_i16.to_be_bytes().to_vec();
            body.extend([4_i32.to_be_bytes(), id.to_be_bytes()].concat());
            match name {
                None => body.extend((-1_i32).to_be_bytes()),
                Some(name) => {
                    body.extend((name.len() as i32).to_be_bytes());
                    body.extend(name.as_bytes());
                }
            }
            [&b"D"[..], &(body.len() as i32 + 4).to_be_bytes(), &body].concat()
        };
        Rows::new(columns, [row(7, Some("seven")), row(8, None)].concat(), 2, 2)
    }

    #[test]
    fn values_are_read_by_number_and_by_name() {
        let rows = rows();
        assert_eq!((rows.len(), rows.rows_affected(), rows.is_empty()), (2, 2, false));
        let read: Vec<(i32, Option<&str>)> =
            rows.iter().map(|row| (row.get("id"), row.get(1))).collect();
        assert_eq!(read, [(7, Some("seven")), (8, None)]);
    }

    #[test]
    fn errors_name_the_column_and_the_reason() {
        let rows = rows();
        let row = rows.iter().nth(1).unwrap();
        let missing = row.try_get::<i32>("nane").unwrap_err().to_string();
        assert_eq!(missing, "the row has no column nane; its columns are id, name");
        assert!(row.try_get::<i32>(2).is_err());
        let null = row.try_get::<&str>("name").unwrap_err().to_string();
        assert!(null.starts_with("column name: "), "{null}");
        assert!(row.try_get::<i64>("id").unwrap_err().to_string().contains("int4"));
    }
}
