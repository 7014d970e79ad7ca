// graphile-worker: one function call in the database a job.
//
// Setting: makeWorkerUtils on a pool of one connection a task (option pgPool, in the package's own
// description of WorkerUtilsOptions).
import pg from "pg";
import { makeWorkerUtils } from "graphile-worker";
import { drive, given } from "./one_by_one.mjs";

const load = given();
const pgPool = new pg.Pool({ connectionString: load.databaseUrl, max: load.tasks });
const utils = await makeWorkerUtils({ pgPool });
await utils.migrate();
await drive(() => utils.addJob("bench", { payload: load.payload }), load);
await utils.release();
await pgPool.end();
