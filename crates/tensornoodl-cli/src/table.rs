//! A table of events on the command line: which file, and what is made of it.

use std::path::{Path, PathBuf};

use tensornoodl_data::{Axis, Error, Events, Filter, Query, Value, table};

#[derive(clap::Args)]
pub struct TableArgs {
    /// A CSV file whose first line names the columns, also packed by gzip, or a Parquet file; - for CSV from standard input.
    /// Or an array, as its name says: .npy, .npz (one array, or fibers, p x n, and places, p x 2), .tns or .tns.gz; its columns are 1,
    /// 2 and 3, the indices along its axes, and value.
    #[arg(value_name = "TABLE")]
    path: PathBuf,
    /// What patterns extend over: a column, month(c), week(c) (from Sunday on, and from 1 January on), day(c), hour(c), weekday(c),
    /// weekhour(c), bin(c,width),
    /// grid(x,y,12x10,lowest x:highest x,lowest y:highest y), or court(x,y,12x10) for half a basketball court.
    /// [default: of an array axis 1, the others are rows and cols]
    #[arg(long, value_name = "AXIS")]
    feature: Option<String>,
    /// Who takes part.
    #[arg(long, value_name = "AXIS")]
    row: Option<String>,
    /// With whom.
    #[arg(long, value_name = "AXIS")]
    col: Option<String>,
    /// What makes a tensor of the stream; without it there is one.
    #[arg(long, value_name = "AXIS")]
    step: Option<String>,
    /// What a cell holds: count, sum(column) or mean(column) [default: count, of an array sum(value)].
    #[arg(long)]
    value: Option<String>,
    /// Divide cells by the number of distinct values of this column among the events of their row, col and step.
    #[arg(long, value_name = "COLUMN")]
    average_over: Option<String>,
    /// Only so many rows, those with most events.
    #[arg(long, value_name = "N")]
    keep_rows: Option<usize>,
    /// Only events with this, such as type=to, points>=2 or from!=@to (@ stands before a column); may be given again.
    #[arg(long = "where", value_name = "FILTER")]
    filters: Vec<String>,
    /// Rows and cols are the same people: either axis gets the labels of both.
    #[arg(long, conflicts_with = "keep_rows")]
    square: bool,
    /// Names for rows and cols from a second table: its file, the column with the labels, and that with the names.
    #[arg(long, value_name = "FILE(LABEL,NAME)")]
    names: Option<String>,
    /// What rows and cols belong to, from a second table: groups that are found are compared with it.
    #[arg(long, value_name = "FILE(LABEL,GROUP)")]
    groups: Option<String>,
}

impl TableArgs {
    /// As people know the table.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub fn query(&self) -> Result<Query, Error> {
        let keep_rows = self.keep_rows;
        if keep_rows == Some(0) {
            return Err(tensornoodl::Error::Parameter {
                name: "keep_rows",
                value: "0".into(),
                rule: "at least 1".into(),
            }
            .into());
        }
        let [feature, row, col] = self.axes()?;
        let value = if self.is_array() { "sum(value)" } else { "count" };
        Ok(Query {
            feature,
            row,
            col,
            step: self.step.as_deref().map(|step| self.axis(step)).transpose()?,
            value: self.value.as_deref().unwrap_or(value).parse::<Value>()?,
            average_over: self.average_over.clone(),
            keep_rows,
            filters: self.filters.iter().map(|filter| filter.parse::<Filter>()).collect::<Result<_, _>>()?,
            square: self.square,
            names: self.names.as_deref().map(str::parse).transpose()?,
            groups: self.groups.as_deref().map(str::parse).transpose()?,
        })
    }

    fn is_array(&self) -> bool {
        table::is_array(&self.path)
    }

    /// What a pattern extends over, who takes part, and with whom. Those of an array that are not given are its other axes.
    fn axes(&self) -> Result<[Axis; 3], Error> {
        let given = [("--feature", &self.feature), ("--row", &self.row), ("--col", &self.col)];
        let mut axes = Vec::new();
        for (_, text) in given {
            axes.push(text.as_deref().map(|text| self.axis(text)).transpose()?);
        }
        let taken = |name: &&str| axes.iter().flatten().any(|axis| axis.columns().contains(name));
        let free: Vec<&str> = ["1", "2", "3"].into_iter().filter(|name| !taken(name)).collect();
        let mut free = free.into_iter().filter(|_| self.is_array());
        let mut axis = |at: usize| match (axes[at].take(), given[at].0) {
            (Some(axis), _) => Ok(axis),
            (None, name) => {
                let axis = free.next().map(|axis| self.axis(axis));
                let rule = "a column of the table, or made of columns; --feature, --row and --col are all needed, but for \
                            arrays (.npy, .npz, .tns)";
                let missing =
                    tensornoodl::Error::Parameter { name, value: "missing".into(), rule: rule.into() };
                axis.unwrap_or(Err(missing.into()))
            }
        };
        Ok([axis(0)?, axis(1)?, axis(2)?])
    }

    /// An axis as it is written. Indices of an array are numbers, and of features also those between that never occur.
    fn axis(&self, text: &str) -> Result<Axis, Error> {
        match text.parse()? {
            Axis::Column(name) if self.is_array() && table::ARRAY_COLUMNS[..3].contains(&name.as_str()) => {
                Ok(Axis::Bin(name, 1.0))
            }
            axis => Ok(axis),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it.
    pub fn read(&self) -> Result<Events, Error> {
        table::read(&self.path, self.query()?)
    }
}
