"""Training steps: a model, its loss, the gradient and the update of its parameters, as one program.

step           train_step: the whole program, from a model; parameters are updated in place
losses         the loss, as a scalar output of the model's program; compose, for a loss that is a program
optimizers     the update of a parameter, given its gradient and its state
accumulate     sums of gradients over several batches, before an update
lora           adapters of low rank beside linear layers
schedules      the learning rate of each step, which the caller passes to the program
roles          what each input of a step is: a parameter, state of the optimizer, an input of the model, ...
"""
