"""Work spread over workers of this machine or of others, by Dask.

    async with worker_pool("local", workers=2) as pool:
        async for result in pool.run(tasks):
            ...  # result.value, result.folder, result.error

`task.py` is what is asked and what comes back, `pool.py` the side that asks and how workers come to
be, `agent.py` what runs on a worker and how directories travel, `bundle.py` dstest itself for
machines that lack it. A worker has one thread, and one lab that a task may claim. Dask is imported
when a pool is opened, not before.
"""
