"""Work spread over workers of this machine or of others, by Dask.

    async with fan_out("local", workers=2) as fan:
        async for done in fan.run(tasks):
            ...  # done.value, done.folder, done.error

`task.py` is what is asked and what comes back, `fan.py` the side that asks, `where.py` how workers
come to be, `desk.py` what runs on a worker, `parcel.py` how directories travel. A worker has one
thread, and one lab that a task may claim; a worker that is lost costs the tasks that it had, which
are done again elsewhere. Dask is imported when a fan is opened, not before.
"""
