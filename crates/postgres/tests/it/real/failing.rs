//! A failing query affects no other query of its cohort.

use phalanx_postgres::{Database, Error, Rows, Statement, ToSql, Type};

use super::{execute, execute_cohort, number, run, shared_server};

/// Which of the queries fail, with the codes of their errors.
fn failures(results: &[Result<Rows, Error>]) -> Vec<(usize, String)> {
    let code =
        |error: &Error| error.database().unwrap_or_else(|| panic!("{error}")).code().to_owned();
    results
        .iter()
        .enumerate()
        .filter_map(|(index, result)| Some((index, code(result.as_ref().err()?))))
        .collect()
}

async fn insert_each(database: Database, sql: &str, ids: &[i32]) -> Vec<Result<Rows, Error>> {
    let insert = Statement::new(sql, &[Type::INT4]).batchable();
    let parameters: Vec<[&(dyn ToSql + Sync); 1]> = ids.iter().map(|id| [id as _]).collect();
    let parameters: Vec<&[&(dyn ToSql + Sync)]> =
        parameters.iter().map(|parameters| &parameters[..]).collect();
    execute_cohort(database, &insert, &parameters).await
}

#[test]
fn only_the_failing_rows_fail() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE unique_ids (id int PRIMARY KEY CHECK (id >= 0))")
            .await
            .unwrap();
        let sql = "INSERT INTO unique_ids VALUES ($1)";
        // Those at 3, 7 and 9 fail; that at 7 because of a row of the same cohort.
        let results = insert_each(database, sql, &[1, 2, 3, -1, 4, 5, 6, 2, 7, -2]).await;
        let (check, unique) = ("23514".to_owned(), "23505".to_owned());
        assert_eq!(failures(&results), [(3, check.clone()), (7, unique), (9, check)]);
        assert!(results[7].as_ref().unwrap_err().database().unwrap().is_unique_violation());
        assert_eq!(number(database, "SELECT count(*) FROM unique_ids").await, 7);
    });
}

/// With every pattern of failures among few rows.
#[test]
fn every_pattern_of_failures_is_resolved() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE patterns (id int PRIMARY KEY CHECK (id < 1000000))")
            .await
            .unwrap();
        for pattern in 0..64 {
            let fails = |index: i32| pattern >> index & 1 == 1;
            let id = |index| if fails(index) { 1_000_000 } else { pattern * 6 + index };
            let ids: Vec<_> = (0..6).map(id).collect();
            let results = insert_each(database, "INSERT INTO patterns VALUES ($1)", &ids).await;
            let failed: Vec<_> = failures(&results).into_iter().map(|(index, _)| index).collect();
            let expected: Vec<_> = (0..6).filter(|index| fails(*index as i32)).collect();
            assert_eq!(failed, expected, "{pattern:b}");
        }
        assert_eq!(number(database, "SELECT count(*) FROM patterns").await, 6 * 32);
    });
}

#[test]
fn an_error_of_the_commit_fails_the_rows_that_cause_it() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE parents (id int PRIMARY KEY)").await.unwrap();
        execute(database, "INSERT INTO parents VALUES (1), (2), (3)").await.unwrap();
        let sql = "CREATE TABLE children (id int REFERENCES parents DEFERRABLE INITIALLY DEFERRED)";
        execute(database, sql).await.unwrap();
        let results =
            insert_each(database, "INSERT INTO children VALUES ($1)", &[1, 2, 99, 3, 98, 1]).await;
        let foreign_key = "23503".to_owned();
        assert_eq!(failures(&results), [(2, foreign_key.clone()), (4, foreign_key)]);
        assert_eq!(number(database, "SELECT count(*) FROM children").await, 4);
    });
}

#[test]
fn a_statement_with_an_error_fails_alone() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        let (right, wrong) = (
            Statement::new("SELECT 1", &[]).batchable(),
            Statement::new("SELECT nothing FROM nowhere", &[]).batchable(),
        );
        for _ in 0..2 {
            let queries = [&right, &wrong, &right].map(|statement| database.query(statement, &[]));
            let [first, second, third] = queries;
            assert_eq!(first.await.unwrap().len(), 1);
            assert_eq!(second.await.unwrap_err().database().unwrap().code(), "42P01");
            assert_eq!(third.await.unwrap().len(), 1);
        }
    });
}

/// A statement whose text cannot be sent, one that fails after its first rows, and right ones.
#[test]
fn texts_with_zero_bytes_and_late_errors_affect_no_neighbour() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        let zero = Statement::new("SELECT '\0'", &[]);
        let late = Statement::new("SELECT 1 / (5 - x) FROM generate_series(1, 9) AS x", &[]);
        let right = Statement::new("SELECT 1", &[]).batchable();
        for (zero, late) in [(zero.clone(), late.clone()), (zero.batchable(), late.batchable())] {
            let queries = [&right, &zero, &right, &late, &right]
                .map(|statement| database.query(statement, &[]));
            let mut results = Vec::new();
            for query in queries {
                results.push(query.await.map(|rows| rows.len()));
            }
            assert!(matches!(results[1], Err(Error::Encoding(_))));
            assert_eq!(results[3].as_ref().unwrap_err().database().unwrap().code(), "22012");
            for index in [0, 2, 4] {
                assert_eq!(results[index].as_ref().unwrap(), &1);
            }
        }
    });
}

/// The server has forgotten all statements of a cohort, or their plans are out of date.
#[test]
fn statements_that_are_stale_are_prepared_again() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE changing (id int)").await.unwrap();
        execute(database, "INSERT INTO changing VALUES (1)").await.unwrap();
        let statements: Vec<_> = (0..12)
            .map(|number| format!("SELECT *, {number} FROM changing"))
            .map(|sql| Statement::new(&sql, &[]).batchable())
            .collect();
        let select = async || {
            let queries = statements.iter().map(|statement| database.query(statement, &[]));
            let queries: Vec<_> = queries.collect();
            for query in queries {
                assert_eq!(query.await.unwrap().len(), 1);
            }
        };
        select().await;
        execute(database, "DEALLOCATE ALL").await.unwrap();
        select().await;
        execute(database, "SET lc_messages = 'C'").await.unwrap();
        execute(database, "ALTER TABLE changing ADD COLUMN name text").await.unwrap();
        select().await;
    });
}

/// Statements that are not batchable stand between batchable ones; one that cannot be part of a transaction, too.
#[test]
fn statements_of_all_kinds_share_a_cohort() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE mixed (id int)").await.unwrap();
        let insert = Statement::new("INSERT INTO mixed VALUES (1)", &[]).batchable();
        let divide = Statement::new("SELECT 1 / $1", &[Type::INT4]);
        let vacuum = Statement::new("VACUUM mixed", &[]);
        for _ in 0..3 {
            let zero: &[&(dyn ToSql + Sync)] = &[&0];
            let all = [
                (&insert, &[][..]),
                (&vacuum, &[]),
                (&insert, &[]),
                (&divide, zero),
                (&insert, &[]),
            ];
            let queries = all.map(|(statement, parameters)| database.query(statement, parameters));
            let mut failed = Vec::new();
            for (index, query) in queries.into_iter().enumerate() {
                if query.await.is_err() {
                    failed.push(index);
                }
            }
            assert_eq!(failed, [3]);
        }
        assert_eq!(number(database, "SELECT count(*) FROM mixed").await, 9);
    });
}
