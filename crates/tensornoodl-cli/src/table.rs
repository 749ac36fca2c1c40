//! A table of events on the command line: which file, and what is made of it.

use std::path::PathBuf;

use tensornoodl_data::{Axis, Error, Events, Filter, Query, Value, table};

#[derive(clap::Args)]
pub(crate) struct TableArgs {
    /// A CSV file whose first line names the columns, also packed by gzip, or a Parquet file; - for CSV from standard input.
    #[arg(value_name = "TABLE")]
    path: PathBuf,
    /// What patterns extend over: a column, month(c), week(c), day(c), hour(c), weekday(c), weekhour(c), bin(c,width),
    /// grid(x,y,12x10,lowest x:highest x,lowest y:highest y), or court(x,y,12x10) for half a basketball court.
    #[arg(long, value_name = "AXIS")]
    feature: String,
    /// Who takes part.
    #[arg(long, value_name = "AXIS")]
    row: String,
    /// With whom.
    #[arg(long, value_name = "AXIS")]
    col: String,
    /// What makes a tensor of the stream; without it there is one.
    #[arg(long, value_name = "AXIS")]
    step: Option<String>,
    /// What a cell holds: count, sum(column) or mean(column).
    #[arg(long, default_value = "count")]
    value: String,
    /// Divide cells by the number of distinct values of this column among the events of their row, col and step.
    #[arg(long, value_name = "COLUMN")]
    average_over: Option<String>,
    /// Only so many rows, those with most events.
    #[arg(long, value_name = "N")]
    keep_rows: Option<usize>,
    /// Only events with this, such as type=to, points>=2 or from!=@to (@ stands before a column); may be given again.
    #[arg(long = "where", value_name = "FILTER")]
    filters: Vec<String>,
}

impl TableArgs {
    /// As people know the table.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn query(&self) -> Result<Query, Error> {
        let keep_rows = self.keep_rows;
        if keep_rows == Some(0) {
            return Err(tensornoodl::Error::Parameter {
                name: "keep_rows",
                value: "0".into(),
                rule: "at least 1".into(),
            }
            .into());
        }
        Ok(Query {
            feature: self.feature.parse::<Axis>()?,
            row: self.row.parse()?,
            col: self.col.parse()?,
            step: self.step.as_deref().map(str::parse).transpose()?,
            value: self.value.parse::<Value>()?,
            average_over: self.average_over.clone(),
            keep_rows,
            filters: self.filters.iter().map(|filter| filter.parse::<Filter>()).collect::<Result<_, _>>()?,
        })
    }

    /// Reads it.
    pub(crate) fn read(&self) -> Result<Events, Error> {
        table::read(&self.path, self.query()?)
    }
}
